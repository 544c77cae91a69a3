// One MCP server over one source: tools, resources, completions, prompts, tasks, in the words of the protocol. The same
// factory serves stdio and HTTP, and every protocol revision; nothing here knows what a tool does.
import {
  ProtocolError,
  ProtocolErrorCode,
  ResourceNotFoundError,
  type Server,
  type ServerContext,
} from '@modelcontextprotocol/server';
import type { ErrorBody } from '../../errors.ts';
import type { Clock } from '../../runtime/clock.ts';
import { progressReporter } from './progress.ts';
import {
  anything,
  declaresTasks,
  plainCall,
  resultOf,
  tasksExtension,
  type Era,
} from './protocol.ts';
import { errorAnswer, type Answer, type JsonObject, type Source, type ToolCard } from './source.ts';
import { StrictServer } from './strict-server.ts';
import {
  createdTask,
  FinishedTasks,
  installLegacyTasks,
  installModernTasks,
  legacyNews,
} from './tasks.ts';

export interface ServerOptions {
  source: Source;
  era: Era;
  version: string;
  clock: Clock;
  finished: FinishedTasks;
  /** Changes of resources can reach the client: not over stateless HTTP with old clients. */
  subscriptions: boolean;
  /** The list of tools may change while the client is there: a front may meet a newer server. */
  listChanges: boolean;
  /** Server instructions; from the catalog. */
  instructions: string;
}

/** How long a client may keep lists: they change with the program, not with the work. */
const listTtlMs = 300_000;
const watchTtlMs = 0;

export function createServer(options: ServerOptions): Server {
  const { source, era } = options;
  const server = new StrictServer(
    { name: 'errand', title: 'Errand', version: options.version },
    {
      capabilities: capabilities(options),
      instructions: options.instructions,
      cacheHints: {
        'server/discover': { ttlMs: listTtlMs, cacheScope: 'private' },
        'tools/list': { ttlMs: listTtlMs, cacheScope: 'private' },
        'prompts/list': { ttlMs: listTtlMs, cacheScope: 'private' },
        'resources/templates/list': { ttlMs: listTtlMs, cacheScope: 'private' },
        'resources/list': { ttlMs: watchTtlMs, cacheScope: 'private' },
        'resources/read': { ttlMs: watchTtlMs, cacheScope: 'private' },
      },
    },
  );
  installTools(server, options);
  installResources(server, source);
  if (source.prompts) installPrompts(server, source);
  if (era === 'modern') installModernTasks(server, options);
  else installLegacyTasks(server, options);
  if (era === 'legacy' && options.subscriptions) installSubscriptions(server, source);
  return server;
}

function capabilities({ source, era, subscriptions, listChanges }: ServerOptions) {
  const tasks = { list: {}, cancel: {}, requests: { tools: { call: {} } } };
  return {
    tools: { listChanged: listChanges },
    resources: { subscribe: subscriptions },
    completions: {},
    ...(source.prompts ? { prompts: {} } : {}),
    ...(era === 'modern' ? { extensions: { [tasksExtension]: {} } } : { tasks }),
  };
}

function installTools(server: Server, options: ServerOptions): void {
  const { source, era, subscriptions } = options;
  const news = era === 'legacy' && subscriptions ? legacyNews(server, options) : undefined;
  server.setRequestHandler('tools/list', async (_request, ctx) => {
    const { tools } = await source.catalog(plainCall(ctx));
    return { tools: tools.map((card) => listedTool(card, era)) as never };
  });
  // With a schema of our own the parameters arrive whole: `task` of the 2025 tasks included.
  server.setRequestHandler('tools/call', { params: anything }, async (params, ctx) => {
    const { name, arguments: args = {}, task } = params as unknown as CallParams;
    const { card, unreachable } = await findTool(source, name, ctx);
    if (unreachable) return callResult(server, errorAnswer(unreachable), card);
    const finishedWanted = era === 'legacy' && task !== undefined;
    if (finishedWanted && !card.startsJob) {
      throw new ProtocolError(
        ProtocolErrorCode.MethodNotFound,
        `${name} cannot be called as a task: it answers at once.`,
      );
    }
    const reporter = progressReporter(ctx, options.clock);
    const call = { ...plainCall(ctx), ...(reporter ? { progress: reporter.report } : {}) };
    const answer = await source.call(name, args, call).finally(() => reporter?.stop());
    if (finishedWanted) {
      const created = await options.finished.create(answer, source, plainCall(ctx));
      if (answer.jobId) news?.(answer.jobId);
      return created;
    }
    const asTask = answer.jobId && era === 'modern' && declaresTasks(ctx);
    const created = asTask
      ? await createdTask(source, answer.jobId!, plainCall(ctx), options.clock)
      : undefined;
    return created ?? callResult(server, answer, card);
  });
}

interface CallParams {
  name: string;
  arguments?: JsonObject;
  task?: JsonObject;
}

async function findTool(
  source: Source,
  name: string,
  ctx: ServerContext,
): Promise<{ card: ToolCard; unreachable?: ErrorBody }> {
  const { tools, unlisted = [], unreachable } = await source.catalog(plainCall(ctx));
  const byName = (tool: ToolCard) => tool.name === name;
  const card = tools.find(byName) ?? unlisted.find(byName);
  if (card) return { card };
  // The client knows the tools of a server that is away now: the reason helps more than "unknown tool".
  if (unreachable) return { card: tools[0]!, unreachable };
  throw new ProtocolError(ProtocolErrorCode.InvalidParams, unknownTool(name));
}

const unknownTool = (name: string): string =>
  `Unknown tool: ${name}. It may be in a toolset that this client was not given: ` +
  '`errand mcp --toolsets all`, over HTTP /mcp?toolsets=all, has every tool.';

function listedTool(card: ToolCard, era: Era): JsonObject {
  const { startsJob, ...tool } = card;
  return {
    ...tool,
    ...(startsJob && era === 'legacy' ? { execution: { taskSupport: 'optional' } } : {}),
  };
}

function callResult(server: Server, answer: Answer, card: ToolCard) {
  return server.projectCallToolResult(resultOf(answer) as never, card.outputSchema) as JsonObject;
}

function installResources(server: Server, source: Source): void {
  server.setRequestHandler('resources/list', async (request, ctx) => {
    const page = await source.resources(request.params?.cursor, plainCall(ctx));
    return { resources: page.items, ...(page.nextCursor ? { nextCursor: page.nextCursor } : {}) };
  });
  server.setRequestHandler('resources/templates/list', () => ({
    resourceTemplates: source.resourceTemplates(),
  }));
  server.setRequestHandler('resources/read', async (request, ctx) => {
    const contents = await source.read(request.params.uri, plainCall(ctx));
    if (!contents) throw new ResourceNotFoundError(request.params.uri);
    return { contents: contents as never };
  });
  server.setRequestHandler('completion/complete', async (request, ctx) => {
    const { ref, argument } = request.params;
    const values =
      ref.type === 'ref/resource'
        ? await source.complete(ref.uri, argument.name, argument.value, plainCall(ctx))
        : ((await source.prompts?.complete(ref.name, argument.name, argument.value)) ?? []);
    const shown = values.slice(0, completionsMax);
    return {
      completion: { values: shown, total: values.length, hasMore: shown.length < values.length },
    };
  });
}

const completionsMax = 100;

function installPrompts(server: Server, source: Source): void {
  server.setRequestHandler('prompts/list', () => ({ prompts: source.prompts!.list() as never }));
  server.setRequestHandler('prompts/get', async (request, ctx) => {
    const { name, arguments: args = {} } = request.params;
    const prompt = await source.prompts!.get(name, args, plainCall(ctx));
    if (!prompt)
      throw new ProtocolError(ProtocolErrorCode.InvalidParams, `Unknown prompt: ${name}`);
    return prompt as never;
  });
}

/** resources/subscribe of the older revisions; newer clients listen, which the entry (stdio, HTTP) serves. */
function installSubscriptions(server: Server, source: Source): void {
  const watched = new Map<string, AbortController>();
  server.setRequestHandler('resources/subscribe', (request) => {
    const { uri } = request.params;
    if (watched.has(uri)) return {};
    const stop = new AbortController();
    watched.set(uri, stop);
    const changed = () => void server.sendResourceUpdated({ uri }).catch(() => stop.abort());
    void source.watch(uri, changed, stop.signal).finally(() => watched.delete(uri));
    return {};
  });
  server.setRequestHandler('resources/unsubscribe', (request) => {
    watched.get(request.params.uri)?.abort();
    watched.delete(request.params.uri);
    return {};
  });
  const { onclose } = server;
  server.onclose = () => {
    for (const stop of watched.values()) stop.abort();
    onclose?.();
  };
}
