// How to connect each client, with absolute paths: programs started from a desktop have no PATH, and none has our
// environment.
import { quoted } from '../../runtime/shell.ts';

/** `words`: what a client has to start. */
export function clientConfigs(words: readonly string[]): string {
  const [command, ...args] = words;
  const line = words.map(quoted).join(' ');
  const json = JSON.stringify({ mcpServers: { errand: { command, args } } });
  const opencode = JSON.stringify({ mcp: { errand: { type: 'local', command: words } } });
  return [
    'Connect an agent (each starts the server by itself when it is not running):',
    `  Claude Code  claude mcp add errand -- ${line}`,
    `  Codex        codex mcp add errand -- ${line}`,
    `  Gemini CLI   gemini mcp add errand ${line}`,
    `  opencode     in opencode.json: ${opencode}`,
    `  Cursor       in ~/.cursor/mcp.json: ${json}`,
  ].join('\n');
}
