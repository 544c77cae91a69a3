// How to connect each MCP client, with a check that one connected.
import { useEffect, useState } from 'preact/hooks';
import { get, Problem } from '../api.ts';
import { base } from '../base.ts';
import { plural } from '../format.ts';
import { Command } from '../parts/copy.tsx';
import { useLoaded } from '../parts/loading.ts';
import { ProblemBox } from '../parts/problem.tsx';

interface ServerView {
  bridge: string[];
  bridges: number;
}

const checkMs = 2000;

export function ConnectView() {
  const { value, error, reload } = useLoaded('server', (signal) =>
    get<ServerView>('api/server', {}, signal),
  );
  const [first, setFirst] = useState<number | undefined>(undefined);
  useEffect(() => {
    const timer = setInterval(() => {
      if (document.visibilityState === 'visible') reload();
    }, checkMs);
    return () => clearInterval(timer);
  }, [reload]);
  useEffect(() => {
    if (value && first === undefined) setFirst(value.bridges);
  }, [value]);
  const isForbidden = error instanceof Problem && error.status === 403;
  const bridge = value?.bridge ?? ['errand', 'mcp'];
  const isNew = value !== undefined && first !== undefined && value.bridges > first;
  return (
    <section class="view narrow" aria-labelledby="connect-title">
      <h1 id="connect-title">Connect a client</h1>
      <p>
        Run or paste one of these. The client starts the server if necessary, so it works after a
        restart too.
      </p>
      {error === undefined || isForbidden ? null : <ProblemBox error={error} onRetry={reload} />}
      {value ? (
        <p class={`panel check ${value.bridges > 0 ? 'ok' : ''}`} role="status">
          {isNew ? 'Connected. ' : ''}
          {value.bridges === 0
            ? 'No MCP client is connected. This line changes when one connects.'
            : `${plural(value.bridges, 'MCP client')} connected.`}
        </p>
      ) : null}
      {clientsOf(bridge).map(({ name, note, text }) => (
        <section key={name} class="client">
          <h2>
            {name} <span class="dim">{note}</span>
          </h2>
          <Command text={text} />
        </section>
      ))}
      <section class="client">
        <h2>
          Over HTTP{' '}
          <span class="dim">
            from another machine, with a key of <code>errand key create NAME</code>
          </span>
        </h2>
        <Command
          text={`claude mcp add --transport http errand ${new URL('mcp', base).href} --header "Authorization: Bearer KEY"`}
        />
      </section>
    </section>
  );
}

function clientsOf(words: string[]): { name: string; note: string; text: string }[] {
  const [command, ...args] = words;
  const line = words.map(quote).join(' ');
  const add = words.map((word) => (word === 'mcp' ? 'add' : quote(word))).join(' ');
  const json = JSON.stringify({ mcpServers: { errand: { command, args } } });
  return [
    { name: 'All clients of this machine', note: 'finds and configures them', text: add },
    { name: 'Claude Code', note: 'in a terminal', text: `claude mcp add errand -- ${line}` },
    { name: 'Codex', note: 'in a terminal', text: `codex mcp add errand -- ${line}` },
    { name: 'Gemini CLI', note: 'in a terminal', text: `gemini mcp add errand ${line}` },
    { name: 'Cursor', note: 'in ~/.cursor/mcp.json', text: json },
    {
      name: 'opencode',
      note: 'in opencode.json',
      text: JSON.stringify({ mcp: { errand: { type: 'local', command: words } } }),
    },
  ];
}

const quote = (text: string): string =>
  /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
