// Which MCP clients this user has, and which of them know Errand already.
import { join } from 'node:path';
import type { Finding, Machine } from '../runtime/machine.ts';

interface Client {
  name: string;
  /** Below the user's home: there when the client was ever used. */
  sign: string;
  /** Where it keeps its servers. */
  config: string;
}

const known: Client[] = [
  { name: 'Claude Code', sign: '.claude.json', config: '.claude.json' },
  {
    name: 'Claude Desktop',
    sign: 'Library/Application Support/Claude',
    config: 'Library/Application Support/Claude/claude_desktop_config.json',
  },
  { name: 'Codex', sign: '.codex', config: '.codex/config.toml' },
  { name: 'Gemini CLI', sign: '.gemini', config: '.gemini/settings.json' },
  { name: 'opencode', sign: '.config/opencode', config: '.config/opencode/opencode.json' },
  { name: 'Cursor', sign: '.cursor', config: '.cursor/mcp.json' },
  {
    name: 'Windsurf',
    sign: '.codeium/windsurf',
    config: '.codeium/windsurf/mcp_config.json',
  },
];

export function clients(machine: Machine): Finding[] {
  const at = (path: string) => join(machine.userHome, path);
  const found = known.filter(({ sign }) => machine.has(at(sign)));
  if (found.length === 0)
    return [
      {
        name: 'clients',
        state: 'note',
        text: 'no MCP client found in your home',
        hint: '`errand serve` prints how to connect one.',
      },
    ];
  const ready = found.filter(({ config }) => machine.read(at(config))?.includes('errand'));
  const others = found.filter((client) => !ready.includes(client)).map(({ name }) => name);
  const parts = [
    ...(ready.length > 0
      ? [
          `${ready.map(({ name }) => name).join(', ')} ${ready.length === 1 ? 'knows' : 'know'} Errand`,
        ]
      : []),
    ...(others.length > 0 ? [`found without it: ${others.join(', ')}`] : []),
  ];
  return [
    {
      name: 'clients',
      state: others.length > 0 ? 'note' : 'ok',
      text: parts.join('; '),
      ...(others.length > 0 ? { hint: '`errand serve` prints how to connect each.' } : {}),
    },
  ];
}
