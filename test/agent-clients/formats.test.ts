// 200 generated odd files per format: adding the entry changes nothing else, and removing it restores the original bytes.
import assert from 'node:assert/strict';
import { mkdirSync, readFileSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import { basename, dirname } from 'node:path';
import { describe, test } from 'node:test';
import { applyAdd, applyRemove, isOriginal } from '../../src/agent-clients/changes.ts';
import type { Connection } from '../../src/agent-clients/connection.ts';
import { plain, valueAt, withEntry, withoutEntry } from '../../src/agent-clients/formats/edit.ts';
import { agentClients } from '../../src/agent-clients/table.ts';
import { systemClock } from '../../src/runtime/clock.ts';
import { isDeep } from '../helpers/deep.ts';
import { tempFolder } from '../helpers/folder.ts';
import { oddJson, oddToml, oddYaml, type OddFile } from './odd-files.ts';

const files = 200;
const connection: Connection = {
  command: '/opt/node 24/bin/node',
  args: ['/opt/errand/bin/errand.js', 'mcp', '--home', '/home/ünï/it\'s "here"'],
};

const formats: [client: string, generate: (seed: number) => OddFile][] = [
  ['claude-desktop', (seed) => oddJson(seed, ['mcpServers'], true)],
  ['cursor', (seed) => oddJson(seed, ['mcpServers'], false)],
  ['opencode', (seed) => oddJson(seed, ['mcp'], false)],
  ['codex', oddToml],
  ['goose', oddYaml],
];

for (const [id, generate] of formats)
  describe(`${id}: ${files} generated files`, () => {
    const client = agentClients.find((each) => each.id === id)!;
    const { format } = client;
    const entry = client.entry(connection);
    const seeds = (count: number) => Array.from({ length: count }, (_each, at) => at + 1);

    test('adding changes only the entry; the original is recognised byte for byte', () => {
      for (const seed of seeds(files)) {
        const { text } = generate(seed);
        const path = client.path(format.parse(text));
        const added = withEntry(format, text, path, entry);
        const about = `seed ${seed}:\n${JSON.stringify(text)}\n${JSON.stringify(added)}`;
        assert.deepEqual(valueAt(format.parse(added), path), plain(entry), about);
        // An explicit null is the one value that is replaced.
        const kept = text.replace('extensions: ~', 'extensions: ');
        assert.ok(isSubsequence(kept, added), `nothing is removed: ${about}`);
        assert.equal(withEntry(format, added, path, entry), added, `adding twice: ${about}`);
        assert.ok(isOriginal(text, added, { format, path, entry }), about);
      }
    });

    test('without a backup, removing keeps everything else', () => {
      for (const seed of seeds(files)) {
        const { text } = generate(seed);
        const path = client.path(format.parse(text));
        const added = withEntry(format, text, path, entry);
        const updated = withEntry(format, added, path, { ...entry, timeout: 7 });
        const removed = withoutEntry(format, updated, path);
        assert.equal(valueAt(format.parse(removed), path), undefined);
        if (id === 'codex' && text.endsWith('\n'))
          assert.equal(removed, text, `no blank line stays: seed ${seed}`);
        const lines = (from: string) => from.split(/\r?\n/).map((line) => line.trim());
        const isLost = (line: string) => /^(#|\/\/)/.test(line) && !lines(removed).includes(line);
        assert.deepEqual(lines(text).filter(isLost), [], `seed ${seed}:\n${text}\n---\n${removed}`);
      }
    });

    test('add and remove leave the same bytes on the disk, and no other file', async (t) => {
      const userHome = tempFolder(t);
      const place = { platform: 'linux', userHome, env: {}, cwd: userHome };
      const [path] = client.userFiles(place) as [string];
      mkdirSync(dirname(path), { recursive: true });
      const deps = { place, clock: systemClock };
      const target = { client, scope: 'user' } as const;
      for (const seed of seeds(isDeep ? files : 8)) {
        const { text, hasBom } = generate(seed);
        const original = Buffer.from((hasBom ? '\ufeff' : '') + text);
        writeFileSync(path, original, { mode: seed % 2 === 0 ? 0o640 : 0o600 });
        const { mode } = statSync(path);
        await applyAdd(deps, target, connection);
        assert.equal((await applyAdd(deps, target, connection)).change.state, 'unchanged');
        assert.equal(statSync(path).mode, mode);
        await applyRemove(deps, target);
        assert.deepEqual(readFileSync(path), original, `seed ${seed}`);
        assert.equal(statSync(path).mode, mode);
        assert.deepEqual(readdirSync(dirname(path)), [basename(path)]);
      }
    });
  });

function isSubsequence(part: string, whole: string): boolean {
  let at = 0;
  for (const char of whole) if (part.startsWith(char, at)) at += char.length;
  return at >= part.length;
}
