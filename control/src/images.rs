//! Model files, made by hand for tests.

/// Reads from memory as a file is read.
pub(crate) fn reader(image: &[u8]) -> impl Fn(u64, &mut [u8]) -> usize {
    move |offset, into| {
        let rest = usize::try_from(offset).ok().and_then(|offset| image.get(offset..)).unwrap_or_default();
        let n = rest.len().min(into.len());
        into[..n].copy_from_slice(&rest[..n]);
        n
    }
}

/// A safetensors file.
pub(crate) fn safetensors(header: &str, data: &[u8]) -> Vec<u8> {
    [&(header.len() as u64).to_le_bytes(), header.as_bytes(), data].concat()
}

/// Some tensors of the types that models have, 4000 bytes of data.
pub(crate) fn model() -> Vec<u8> {
    let header = r#"{"__metadata__":{"dtype":"F32","shape":"[9]","note":"a \"dtype\":\"F64\" {","path":"C:\\"},
        "wte":{"dtype":"F32","shape":[10,25],"data_offsets":[0,1000]},
        "scale" : { "data_offsets" : [1000,3000], "shape" : [ 1000 ] , "dtype" : "BF16" },
        "dtype":{"dtype":"F8_E4M3","shape":[5,100],"data_offsets":[3000,3500]},
        "mask":{"dtype":"BOOL","shape":[500],"data_offsets":[3500,4000]}}"#;
    let data: Vec<u8> = (0..4000_u32).map(|n| (n % 255) as u8 + 1).collect();
    safetensors(header, &data)
}

/// A GGUF file in the making.
#[derive(Default)]
pub(crate) struct Gguf {
    values: (u64, Vec<u8>),
    tensors: (u64, Vec<u8>),
}

fn string(text: &str) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes(), text.as_bytes()].concat()
}

impl Gguf {
    /// Adds a value of the type with this number.
    pub(crate) fn value(mut self, key: &str, kind: u32, value: &[u8]) -> Self {
        self.values.0 += 1;
        self.values.1.extend([string(key), kind.to_le_bytes().to_vec(), value.to_vec()].concat());
        self
    }

    pub(crate) fn string(self, key: &str, text: &str) -> Self {
        self.value(key, 8, &string(text))
    }

    /// Adds an array of elements of type `kind`.
    pub(crate) fn array(self, key: &str, kind: u32, count: u64, elements: &[u8]) -> Self {
        self.value(key, 9, &[kind.to_le_bytes().as_slice(), &count.to_le_bytes(), elements].concat())
    }

    pub(crate) fn strings(self, key: &str, texts: &[String]) -> Self {
        let elements: Vec<u8> = texts.iter().flat_map(|text| string(text)).collect();
        self.array(key, 8, texts.len() as u64, &elements)
    }

    pub(crate) fn tensor(mut self, name: &str, dimensions: &[u64], kind: u32) -> Self {
        self.tensors.0 += 1;
        let tensor = &mut self.tensors.1;
        tensor.extend(string(name));
        tensor.extend((dimensions.len() as u32).to_le_bytes());
        tensor.extend(dimensions.iter().flat_map(|dimension| dimension.to_le_bytes()));
        tensor.extend(kind.to_le_bytes());
        tensor.extend([0; 8]);
        self
    }

    /// The file's header, not yet padded.
    pub(crate) fn header(&self) -> Vec<u8> {
        let counts = [self.tensors.0.to_le_bytes(), self.values.0.to_le_bytes()].concat();
        [b"GGUF".as_slice(), &3_u32.to_le_bytes(), &counts, &self.values.1, &self.tensors.1].concat()
    }

    /// The whole file.
    pub(crate) fn file(&self, alignment: usize, data: &[u8]) -> Vec<u8> {
        let mut file = self.header();
        file.resize(file.len().next_multiple_of(alignment), 0);
        file.extend(data);
        file
    }
}

/// A small model as llama.cpp has them.
pub(crate) fn llama() -> Gguf {
    Gguf::default()
        .string("general.architecture", "llama")
        .value("llama.block_count", 4, &7_u32.to_le_bytes())
        .value("llama.rope.freq_base", 12, &1e4_f64.to_le_bytes())
        .strings("tokenizer.ggml.tokens", &["<s>".to_owned(), String::new(), "GGUF".to_owned()])
        .array("tokenizer.ggml.scores", 6, 3, &[0; 12])
        .tensor("token_embd.weight", &[64, 3], 2)
        .tensor("blk.0.attn_q.weight", &[64, 64], 12)
        .tensor("output_norm.weight", &[64], 0)
}
