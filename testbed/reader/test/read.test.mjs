import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import test from 'node:test';
import { parseExact } from '../lib/files.mjs';
import { build } from './fixture.mjs';

const reader = path.join(path.dirname(fileURLToPath(import.meta.url)), '..', 'read.mjs');
const run = (dir, ...args) => execFileSync(process.execPath, [reader, '--data', dir, '--table', 'siglake.events', ...args], { encoding: 'utf8' });
const fail = (dir, ...args) => spawnSync(process.execPath, [reader, '--data', dir, '--table', 'siglake.events', ...args], { encoding: 'utf8' });

test('long integers survive JSON, also beside text that looks like one', () => {
  assert.deepEqual(parseExact('{"a":9007199254740993,"b":"x\\" 9007199254740993,","c":[12345678901234567]}'),
    { a: '9007199254740993', b: 'x" 9007199254740993,', c: ['12345678901234567'] });
});

test('rows come back exactly', async () => {
  const dir = await build();
  const rows = run(dir, 'rows').trim().split('\n').map((l) => JSON.parse(l));
  assert.deepEqual(rows, [
    { timestamp: '1709251199999998', big: '9223372036854775807', body: 'a', attributes: [['k', 'v'], ['', 'x']], counts: ['1', null], d: 'NaN', events: [{ n: 'e', ns: '5' }] },
    { timestamp: '1709251199999999', big: '-9223372036854775808', body: null, attributes: null, counts: null, d: '-0', events: [] },
    { timestamp: '1709251199999999', big: '0', body: '\uFEFFzé', attributes: [], counts: [], d: '5e-324', events: null },
  ]);
  const s = JSON.parse(run(dir, 'verify'));
  assert.deepEqual([s.wrong, s.manifest_rows, s.parquet_rows, s.snapshot], [[], '3', '3', '9007199254740993']);
  assert.equal(run(dir, 'query', 'SELECT count(*), max(big) FROM t').trim(), '["3","9223372036854775807"]');
  fs.rmSync(dir, { recursive: true });
});

for (const [name, options, want] of [
  ['a false upper bound', { change: (f) => ({ ...f, upper_bounds: [{ key: 3, value: Buffer.from('a') }] }) }, /body: upper bound a is below/],
  ['a false row count', { change: (f) => ({ ...f, record_count: 4n }) }, /says 4 rows, the file has 3/],
  ['a false partition', { change: (f) => ({ ...f, partition: { timestamp_day: 19783 } }) }, /partition timestamp_day is 19783/],
  ['no partition', { change: (f) => ({ ...f, partition: { timestamp_day: null } }) }, /no value for partition timestamp_day/],
  ['a bound that hides a row', { change: (f) => ({ ...f, lower_bounds: [{ key: 3, value: Buffer.from('b') }] }) }, /body < b: left out by its bounds, and has 1 such rows/],
  ['a false size', { change: (f) => ({ ...f, file_size_in_bytes: 1n }) }, /says 1 bytes/],
]) {
  test(`verify finds ${name}`, async () => {
    const dir = await build(options);
    assert.match(JSON.parse(run(dir, 'verify')).wrong.join('\n'), want);
    fs.rmSync(dir, { recursive: true });
  });
}

test('serve answers one command after the other', async () => {
  const dir = await build();
  const r = spawnSync(process.execPath, [reader, 'serve', '--data', dir], {
    encoding: 'utf8',
    input: '["query","--table","siglake.events","SELECT count(*) FROM t"]\n["query","--table","no.such","SELECT 1"]\n["query","--table","siglake.events","SELECT max(big) FROM t"]\n',
  });
  const lines = r.stdout.trim().split('\n');
  assert.deepEqual([lines[0], lines[1], lines[3], lines[4]], ['["3"]', '{"end":true}', '["9223372036854775807"]', '{"end":true}']);
  assert.match(lines[2], /^{"error":"table no.such is not in /);
  fs.rmSync(dir, { recursive: true });
});

test('delete files and foreign field ids are refused', async () => {
  const deletes = await build({ content: 1 });
  assert.match(fail(deletes, 'rows').stderr, /delete file, which this reader does not apply/);
  const foreign = await build({ fieldID: 77 });
  assert.match(fail(foreign, 'rows').stderr, /column big has field id 77/);
  for (const d of [deletes, foreign]) fs.rmSync(d, { recursive: true });
});

test('a missing catalog or table is an error that names it', async () => {
  const dir = await build();
  assert.match(fail('/nowhere', 'rows').stderr, /\/nowhere\/catalog.db: no such file/);
  const r = spawnSync(process.execPath, [reader, 'rows', '--data', dir, '--table', 'siglake.x'], { encoding: 'utf8' });
  assert.match(r.stderr, /siglake.x is not in .*siglake.events/);
  assert.equal(r.status, 1);
  fs.rmSync(dir, { recursive: true });
});
