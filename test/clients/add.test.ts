// The real command-line agents read what `errand add` wrote, through their own command and by an edit of their file.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { agentClients } from '../../src/agent-clients/table.ts';
import { tempFolder } from '../helpers/folder.ts';
import { bin, cli } from '../helpers/server.ts';
import { sharedServer } from '../helpers/shared-server.ts';

const root = join(import.meta.dirname, '..', '..');
const programs = join(import.meta.dirname, 'node_modules', '.bin');
const maxListMs = 120_000;

/** How each client lists its servers, and other settings that must survive. */
const cases = [
  {
    id: 'claude-code',
    program: 'claude',
    existing: '{"mcpServers": {"other": {"type": "stdio", "command": "true", "args": []}}}',
  },
  { id: 'codex', program: 'codex', existing: '# mine\n[mcp_servers.other]\ncommand = "true"\n' },
  {
    id: 'gemini-cli',
    program: 'gemini',
    existing: '{\n  // mine\n  "mcpServers": {"other": {"command": "true"}}\n}\n',
  },
  {
    id: 'opencode',
    program: 'opencode',
    existing: '{\n  // mine\n  "mcp": {"other": {"type": "local", "command": ["true"]}}\n}\n',
  },
];

for (const { id, program, existing } of cases)
  for (const own of [true, false])
    test(`${program} lists the server that ${own ? 'its own command' : 'an edit'} added`, async (t) => {
      if (!existsSync(join(programs, program)))
        return t.skip(`npm did not install ${program} on ${process.platform}-${process.arch}`);
      const { home } = await sharedServer();
      const folder = tempFolder(t);
      const client = agentClients.find((each) => each.id === id)!;
      const place = { platform: 'linux', userHome: folder, env: {}, cwd: folder };
      const file = client.userFiles(place)[0]!;
      mkdirSync(dirname(file), { recursive: true });
      writeFileSync(file, existing);
      const work = join(folder, 'work');
      mkdirSync(work);
      const system = process.env.PATH ?? '';
      const env = {
        HOME: folder,
        PATH: own ? `${programs}:${system}` : '/usr/bin:/bin',
        XDG_CONFIG_HOME: join(folder, '.config'),
        CODEX_HOME: join(folder, '.codex'),
      };
      const added = await cli(home, ['add', id, '--yes', '--json'], env, { cwd: work });
      assert.equal(added.code, 0, added.stdout + added.stderr);
      const [row] = added.json<{ clients: { command?: string[]; notes?: string[] }[] }>().clients;
      if (row!.notes) t.diagnostic(row!.notes.join(' '));
      assert.equal(row!.command !== undefined, own && client.add !== undefined);
      if (id !== 'claude-code') assert.match(readFileSync(file, 'utf8'), /mine/, 'comments stay');
      const written = readFileSync(file, 'utf8');
      const listed = await new Promise<string>((resolve) => {
        const options = {
          cwd: work,
          env: { ...env, PATH: `${programs}:${system}`, NO_COLOR: '1' },
          timeout: maxListMs,
        };
        execFile(join(programs, program), ['mcp', 'list'], options, (_error, stdout, stderr) =>
          resolve(stdout + stderr),
        ).stdin!.end();
      });
      assert.match(listed, /errand/, listed);
      assert.match(listed, /other/, listed);
      // Some clients rewrite their file whenever they start.
      const isUntouched = readFileSync(file, 'utf8') === written;
      const removed = await cli(home, ['remove', id, '--yes'], env, { cwd: work });
      assert.equal(removed.code, 0, removed.stdout + removed.stderr);
      const left = client.format.parse(readFileSync(file, 'utf8'));
      const servers = JSON.stringify(left);
      assert.ok(servers.includes('other') && !servers.includes('errand.js'), servers);
      const isEdited = row!.command === undefined;
      if (isEdited && isUntouched) assert.equal(readFileSync(file, 'utf8'), existing);
    });

/** How each client installs the plugin, and lists the server that comes with it. */
const plugins = [
  {
    program: 'claude',
    install: [
      ['plugin', 'marketplace', 'add', root],
      ['plugin', 'install', 'errand@errand'],
    ],
    listed: /plugin:errand:errand: errand mcp - .*Connected/,
  },
  {
    program: 'codex',
    install: [
      ['plugin', 'marketplace', 'add', root],
      ['plugin', 'add', 'errand@errand'],
    ],
    listed: /^errand +errand +mcp .*enabled/m,
  },
];

for (const { program, install, listed } of plugins)
  test(`${program} installs the plugin and starts its server`, async (t) => {
    if (!existsSync(join(programs, program)))
      return t.skip(`npm did not install ${program} on ${process.platform}-${process.arch}`);
    const { home } = await sharedServer();
    const folder = tempFolder(t);
    const own = join(folder, 'bin');
    mkdirSync(own);
    mkdirSync(join(folder, '.codex'));
    const errand = `#!/bin/sh\nexec '${process.execPath}' '${bin}' "$@"\n`;
    writeFileSync(join(own, 'errand'), errand, { mode: 0o755 });
    const env = {
      HOME: folder,
      CODEX_HOME: join(folder, '.codex'),
      ERRAND_HOME: home,
      NO_COLOR: '1',
      PATH: `${own}:${programs}:${process.env.PATH}`,
    };
    const run = (args: string[]) =>
      new Promise<string>((resolve) => {
        const options = { cwd: folder, env, timeout: maxListMs };
        execFile(join(programs, program), args, options, (_error, stdout, stderr) =>
          resolve(stdout + stderr),
        ).stdin!.end();
      });
    for (const args of install) await run(args);
    assert.match(await run(['mcp', 'list']), listed);
  });
