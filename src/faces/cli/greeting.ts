// How to connect each client, with absolute paths: programs started from a desktop have no PATH.

export function clientConfigs(node: string, bin: string): string {
  const json = JSON.stringify({ mcpServers: { errand: { command: node, args: [bin, 'mcp'] } } });
  const opencode = JSON.stringify({
    mcp: { errand: { type: 'local', command: [node, bin, 'mcp'] } },
  });
  return [
    'Connect an agent (each starts the server by itself when it is not running):',
    `  Claude Code  claude mcp add errand -- ${node} ${bin} mcp`,
    `  Codex        codex mcp add errand -- ${node} ${bin} mcp`,
    `  Gemini CLI   gemini mcp add errand ${node} ${bin} mcp`,
    `  opencode     in opencode.json: ${opencode}`,
    `  Cursor       in ~/.cursor/mcp.json: ${json}`,
  ].join('\n');
}
