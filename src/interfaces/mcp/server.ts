// Creates an MCP server for a source: tools, resources, completions, prompts and tasks. The same factory serves stdio, HTTP
// and every protocol revision, and does not depend on individual tools.
import {
  ProtocolError,
  ProtocolErrorCode,
  ResourceNotFoundError,
  type Server,
  type ServerContext,
} from '@modelcontextprotocol/server';
import type { ErrorBody } from '../../errors.ts';
import type { Clock } from '../../runtime/clock.ts';
import { channelCapability, type Channel } from './channel.ts';
import { progressReporter } from './progress.ts';
import {
  anySchema,
  declaresTasks,
  toSourceCall,
  toCallToolResult,
  tasksExtension,
  type Era,
} from './protocol.ts';
import {
  errorResult,
  type ToolResult,
  type JsonObject,
  type Source,
  type ToolDefinition,
} from './source.ts';
import { installSkills, readSkillFile, skillsExtension } from './skills.ts';
import { StrictServer } from './strict-server.ts';
import {
  createTaskResult,
  FinishedTasks,
  installLegacyTasks,
  installModernTasks,
  legacyStatusNotifier,
} from './tasks.ts';

interface ServerOptions {
  source: Source;
  era: Era;
  version: string;
  clock: Clock;
  finished: FinishedTasks;
  /** Resource changes can reach the client. False for legacy clients over stateless HTTP. */
  subscriptions: boolean;
  /** The tool list may change while the client is connected: a bridge may reconnect to a newer server. */
  listChanges: boolean;
  /** Reports the end of jobs that no response has shown. */
  channel?: Channel | undefined;
  /** Server instructions; from the catalog. */
  instructions: string;
}

/** How long a client may cache lists: they only change with the program version. */
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
  installSkills(server);
  if (source.prompts) installPrompts(server, source);
  if (era === 'modern') installModernTasks(server, options);
  else installLegacyTasks(server, options);
  if (era === 'legacy' && options.subscriptions) installSubscriptions(server, source);
  return server;
}

function capabilities({ source, era, subscriptions, listChanges, channel }: ServerOptions) {
  const tasks = { list: {}, cancel: {}, requests: { tools: { call: {} } } };
  return {
    tools: { listChanged: listChanges },
    resources: { subscribe: subscriptions },
    completions: {},
    ...(channel ? { experimental: { [channelCapability]: {} } } : {}),
    ...(source.prompts ? { prompts: {} } : {}),
    ...(era === 'modern' ? {} : { tasks }),
    extensions: {
      [skillsExtension]: { directoryRead: true },
      ...(era === 'modern' ? { [tasksExtension]: {} } : {}),
    },
  };
}

function installTools(server: Server, options: ServerOptions): void {
  const { source, era, subscriptions } = options;
  const notifyStatus =
    era === 'legacy' && subscriptions ? legacyStatusNotifier(server, options) : undefined;
  server.setRequestHandler('tools/list', async (_request, ctx) => {
    const { tools } = await source.catalog(toSourceCall(ctx));
    return { tools: tools.map((definition) => toListedTool(definition, era)) as never };
  });
  // The SDK's own schema would remove the `task` parameter of the 2025 revision.
  server.setRequestHandler('tools/call', { params: anySchema }, async (params, ctx) => {
    const { name, arguments: args = {}, task } = params as unknown as CallParams;
    const { definition, unreachable } = await findTool(source, name, ctx);
    if (unreachable) return callResult(server, errorResult(unreachable), definition);
    const isTaskRequest = era === 'legacy' && task !== undefined;
    if (isTaskRequest && !definition.startsJob) {
      throw new ProtocolError(
        ProtocolErrorCode.MethodNotFound,
        `${name} cannot be called as a task: it returns its result immediately.`,
      );
    }
    const reporter = progressReporter(ctx, options.clock);
    const call = { ...toSourceCall(ctx), ...(reporter ? { progress: reporter.report } : {}) };
    const called = source.call(name, args, call).finally(() => reporter?.stop());
    const result = await (options.channel?.observe(args, called) ?? called);
    if (isTaskRequest) {
      const created = await options.finished.create(result, source, toSourceCall(ctx));
      if (result.jobId) notifyStatus?.(result.jobId);
      return created;
    }
    const asTask = result.jobId && era === 'modern' && declaresTasks(ctx);
    const created = asTask
      ? await createTaskResult(source, result.jobId!, toSourceCall(ctx), options.clock)
      : undefined;
    if (result.jobId && !created) options.channel?.follow(result.jobId);
    return created ?? callResult(server, result, definition);
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
): Promise<{ definition: ToolDefinition; unreachable?: ErrorBody }> {
  const catalog = await source.catalog(toSourceCall(ctx));
  const { tools, unlisted = [], unreachable, missingToolHint } = catalog;
  const byName = (tool: ToolDefinition) => tool.name === name;
  const definition = tools.find(byName) ?? unlisted.find(byName);
  if (definition) return { definition };
  // The client may know this tool from a server that is unreachable now: the reason helps more than "unknown tool".
  if (unreachable) return { definition: tools[0]!, unreachable };
  const message = `Unknown tool: ${name}${missingToolHint ? `. ${missingToolHint}` : ''}`;
  throw new ProtocolError(ProtocolErrorCode.InvalidParams, message);
}

function toListedTool(definition: ToolDefinition, era: Era): JsonObject {
  const { startsJob, ...tool } = definition;
  return {
    ...tool,
    ...(startsJob && era === 'legacy' ? { execution: { taskSupport: 'optional' } } : {}),
  };
}

function callResult(server: Server, result: ToolResult, definition: ToolDefinition) {
  return server.projectCallToolResult(
    toCallToolResult(result) as never,
    definition.outputSchema,
  ) as JsonObject;
}

function installResources(server: Server, source: Source): void {
  server.setRequestHandler('resources/list', async (request, ctx) => {
    const page = await source.resources(request.params?.cursor, toSourceCall(ctx));
    return { resources: page.items, ...(page.nextCursor ? { nextCursor: page.nextCursor } : {}) };
  });
  server.setRequestHandler('resources/templates/list', () => ({
    resourceTemplates: source.resourceTemplates(),
  }));
  server.setRequestHandler('resources/read', async (request, ctx) => {
    const { uri } = request.params;
    const contents = readSkillFile(uri) ?? (await source.read(uri, toSourceCall(ctx)));
    if (!contents) throw new ResourceNotFoundError(uri);
    return { contents: contents as never };
  });
  server.setRequestHandler('completion/complete', async (request, ctx) => {
    const { ref, argument } = request.params;
    const values =
      ref.type === 'ref/resource'
        ? await source.complete(ref.uri, argument.name, argument.value, toSourceCall(ctx))
        : ((await source.prompts?.complete(ref.name, argument.name, argument.value)) ?? []);
    const shown = values.slice(0, maxCompletions);
    return {
      completion: { values: shown, total: values.length, hasMore: shown.length < values.length },
    };
  });
}

const maxCompletions = 100;

function installPrompts(server: Server, source: Source): void {
  server.setRequestHandler('prompts/list', () => ({ prompts: source.prompts!.list() as never }));
  server.setRequestHandler('prompts/get', async (request, ctx) => {
    const { name, arguments: args = {} } = request.params;
    const prompt = await source.prompts!.get(name, args, toSourceCall(ctx));
    if (!prompt)
      throw new ProtocolError(ProtocolErrorCode.InvalidParams, `Unknown prompt: ${name}`);
    return prompt as never;
  });
}

/** resources/subscribe of older revisions. The stdio and HTTP entry points handle subscriptions/listen of newer ones. */
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
