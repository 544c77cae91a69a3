// A model API on loopback that follows a script instead of thinking. It speaks the wire format of each client, records
// what the client shows to the model, and calls the tools that the client offers.
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { formats, type Offer, type Reply } from './formats.ts';

/** The model's next step: call a tool by our name for it, or end with a text. */
export type Move =
  | {
      call: string;
      args: Record<string, unknown>;
      /** In the same turn, the model loads this tool of the client. */
      load?: string;
    }
  | { say: string };

export interface Script {
  /** Our tools that the conversation needs. */
  tools: readonly string[];
  /** Gets every tool result of the conversation so far, as the model reads it. */
  /** Also gets the notifications that woke the model. */
  next: (shown: readonly string[], notices: readonly string[]) => Move;
}

export interface Model {
  url: string;
  /** Requests of the conversation itself; titles and other side requests of a client are not counted. */
  turns: () => number;
  /** What the last request of the conversation showed, one entry per tool call. */
  shown: () => readonly string[];
  /** Names of the tools in the first request. */
  offered: () => readonly string[];
  /** Problems of the script, such as a tool that the client does not offer. */
  problems: () => readonly string[];
  close: () => Promise<void>;
}

/** Clients prefix tool names with the server name, each in a different format. */
const isOurs = (offered: string, name: string) =>
  offered.includes('errand') && new RegExp(`[_/]${name}$`).test(offered);

/** For clients that load tools on request: the model requests ours as the client describes. */
const isSearch = (tool: string) => tool === 'ToolSearch' || tool === 'tool_search';
const searchQuery = (tools: readonly string[]) =>
  `select:${tools.map((name) => `mcp__errand__${name}`).join(',')}`;

const sideReply: Move = { say: 'ok' };

export async function startModel(script: Script): Promise<Model> {
  let shown: readonly string[] = [];
  let offered: readonly string[] = [];
  let turns = 0;
  const problems: string[] = [];

  const decide = ({ tools, results, notices = [] }: Offer): Reply => {
    if (tools.length === 0) return sideReply;
    turns++;
    if (turns === 1) offered = tools;
    const answered = results.filter(({ tool }) => !isSearch(tool)).map(({ text }) => text);
    shown = [...answered, ...notices];
    const move = script.next(answered, notices);
    if ('say' in move) return move;
    const tool = tools.find((name) => name === move.call || isOurs(name, move.call));
    const search = tools.find(isSearch);
    const loads = move.load !== undefined && search !== undefined && !tools.includes(move.load);
    const also = loads ? { also: { tool: search, args: { query: `select:${move.load}` } } } : {};
    if (tool !== undefined) return { args: move.args, tool, ...also };
    if (search !== undefined && !results.some((result) => isSearch(result.tool)))
      return { tool: search, args: { query: searchQuery(script.tools) } };
    problems.push(`no tool ${move.call} among ${tools.join(', ')}`);
    return { say: `Tool ${move.call} does not exist.` };
  };

  const respond = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const path = new URL(request.url ?? '/', 'http://model').pathname;
    const text = await bodyOf(request);
    const format = formats.find(({ path: pattern }) => pattern.test(path));
    if (request.method !== 'POST' || !format) {
      response.writeHead(404, { 'content-type': 'application/json' }).end('{}');
      return;
    }
    const body = JSON.parse(text) as Record<string, unknown>;
    const move = decide(format.read(body));
    const streams = format.streams(body, path);
    response.writeHead(200, { 'content-type': streams ? 'text/event-stream' : 'application/json' });
    response.end(format.write(move, streams));
  };

  const server = createServer((request, response) => {
    respond(request, response).catch((error: unknown) => {
      problems.push(String(error));
      response.writeHead(500).end();
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    turns: () => turns,
    shown: () => shown,
    offered: () => offered,
    problems: () => problems,
    close: async () => {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}

async function bodyOf(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString('utf8');
}
