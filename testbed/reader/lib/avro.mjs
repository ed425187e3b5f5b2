// Avro object container files with exact longs.
import fs from 'node:fs';
import avro from 'avsc';
import { localPath } from './files.mjs';

// long carries a 64-bit integer as BigInt.
const long = avro.types.LongType.__with({
  fromBuffer: (b) => b.readBigInt64LE(),
  toBuffer: (n) => {
    const b = Buffer.alloc(8);
    b.writeBigInt64LE(BigInt(n));
    return b;
  },
  fromJSON: BigInt,
  toJSON: String,
  isValid: (n) => typeof n === 'bigint',
  compare: (a, b) => (a === b ? 0 : a < b ? -1 : 1),
});

const parseHook = (schema) => avro.Type.forSchema(schema, { registry: { long }, wrapUnions: false });

// readAvro returns the file's records and its header metadata as text.
export function readAvro(location) {
  const file = localPath(location);
  fs.accessSync(file);
  return new Promise((resolve, reject) => {
    const records = [];
    const meta = {};
    avro
      .createFileDecoder(file, { parseHook })
      .on('metadata', (type, codec, header) => {
        for (const [k, v] of Object.entries(header.meta)) meta[k] = v.toString('utf8');
      })
      .on('data', (r) => records.push(r))
      .on('error', (e) => reject(new Error(`read ${file}: ${e.message}`)))
      .on('end', () => resolve({ records, meta }));
  });
}

export { long };
