// config.json of an earlier version keeps working: old setting names are read and rewritten.
import assert from 'node:assert/strict';
import { readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { kinds } from '../src/app.ts';
import { configSchema, loadConfig } from '../src/config.ts';
import { upgradeConfigFile } from '../src/config-upgrade.ts';
import { tempFolder } from './helpers/folder.ts';

const schema = () => configSchema(kinds);
const old = `{
  "retention": { "ageMsMax": 1000,  "countMax": 7 },
  "http": {"bodyBytesMax": 2048},
  "command": { "outputBytesMax": 4096, "policy": { "processesMax": 50 } }
}
`;

test('old setting names are understood without a change of the file', (t) => {
  const home = tempFolder(t);
  writeFileSync(join(home, 'config.json'), old);
  const config = loadConfig({ home, sections: kinds }, {});
  assert.deepEqual([config.retention.maxAgeMs, config.retention.maxCount], [1000, 7]);
  assert.equal(config.http.maxBodyBytes, 2048);
  assert.equal((config.sections.command as { maxOutputBytes: number }).maxOutputBytes, 4096);
  assert.equal(readFileSync(join(home, 'config.json'), 'utf8'), old);
});

test('the file is rewritten once, with its formatting and mode; the original is kept', (t) => {
  const home = tempFolder(t);
  const path = join(home, 'config.json');
  writeFileSync(path, old, { mode: 0o600 });
  assert.equal(upgradeConfigFile(home, schema), true);
  const text = readFileSync(path, 'utf8');
  assert.match(text, /"maxAgeMs": 1000, {2}"maxCount": 7/);
  assert.doesNotMatch(text, /Max"/);
  assert.equal(statSync(path).mode & 0o777, 0o600);
  assert.equal(readFileSync(`${path}.old`, 'utf8'), old);
  assert.equal(upgradeConfigFile(home, schema), false);
});

test('keys that are not settings keep their names', (t) => {
  const home = tempFolder(t);
  const text = '{"endpoint": {"e": {"env": {"heapMax": "1"}}}}';
  writeFileSync(join(home, 'config.json'), text);
  assert.equal(upgradeConfigFile(home, schema), false);
  assert.equal(readFileSync(join(home, 'config.json'), 'utf8'), text);
});

test('the section `endpoints` is renamed to `endpoint`, an endpoint with that id is not', (t) => {
  const home = tempFolder(t);
  const path = join(home, 'config.json');
  writeFileSync(path, '{ "endpoints" : {"endpoints": {"workersMax": 2}} }');
  const { endpoint } = loadConfig({ home, sections: kinds }, {}).sections;
  assert.equal((endpoint as Record<string, { maxWorkers: number }>).endpoints!.maxWorkers, 2);
  assert.equal(upgradeConfigFile(home, schema), true);
  const upgraded = '{ "endpoint" : {"endpoints": {"maxWorkers": 2}} }';
  assert.equal(readFileSync(path, 'utf8'), upgraded);
  assert.equal(upgradeConfigFile(home, schema), false);
});

test('a file with both sections is rejected, because neither may be dropped', (t) => {
  const home = tempFolder(t);
  writeFileSync(join(home, 'config.json'), '{"endpoints": {"a": {}}, "endpoint": {"b": {}}}');
  assert.throws(() => loadConfig({ home, sections: kinds }, {}), /endpoints/);
});
