// DuckDB's binding decodes text with a decoder that drops a leading byte order mark. It is data here: this module must
// be imported before the binding.
const { TextDecoder } = globalThis;

globalThis.TextDecoder = class extends TextDecoder {
  constructor(label, options) {
    super(label, { ...options, ignoreBOM: true });
  }
};
