// The source in the server process: the tools of one caller, and its jobs as tasks and resources.
import type { CallContext, Caller, Origin } from '../../operation.ts';
import { errorBody } from '../../errors.ts';
import { checkInput } from '../../runtime/input-limits.ts';
import { isRecord } from '../../runtime/json.ts';
import type { Log } from '../../runtime/log.ts';
import { parseTraceparent, withTrace } from '../../runtime/trace.ts';
import { bound, cutText } from '../../runtime/response-budget.ts';
import { resultJson } from './protocol.ts';
import { JobTasks, taskState } from './jobs.ts';
import { RepeatedReads } from './repeated-reads.ts';
import { jobTemplates } from './templates.ts';
import type { ToolList, ToolRegistry } from './toolsets.ts';
import {
  errorResult,
  type ToolResult,
  type Catalog,
  type JsonObject,
  type Page,
  type ResourceDefinition,
  type ResourceContent,
  type ResourceTemplate,
  type Source,
  type SourceCall,
  type TaskState,
} from './source.ts';

/** JSON bytes in one response: about 8,000 tokens, a third of what Claude Code accepts. Operations respect it. */
const maxResponseBytes = 30_000;
/** Largest text, and largest JSON of tools that do not limit their own output (dialects). */
const maxTextBytes = 32_000;
const resourcesPerPage = 50;
const maxCompletions = 100;

interface LocalSourceOptions {
  registry: ToolRegistry;
  jobs: JobTasks;
  toolsets?: readonly string[];
  dialects?: readonly string[];
  caller: Caller | undefined;
  origin?: Origin;
  log: Log;
}

export class LocalSource implements Source {
  private readonly options: LocalSourceOptions;
  private readonly toolList: ToolList;
  private readonly reads = new RepeatedReads();

  /** Throws an AppError if the tool selection cannot be served. */
  constructor(options: LocalSourceOptions) {
    this.options = options;
    this.toolList = options.registry.select(options);
  }

  async catalog(): Promise<Catalog> {
    return this.toolList.catalog(this.options.caller);
  }

  async call(name: string, args: JsonObject, call: SourceCall): Promise<ToolResult> {
    return this.boundToolResult(name, await this.runTool(name, args, call)).result;
  }

  async rawCall(name: string, args: JsonObject, call: SourceCall): Promise<string> {
    const { result, json } = this.boundToolResult(name, await this.runTool(name, args, call));
    return resultJson(result, json);
  }

  private boundToolResult(name: string, result: ToolResult) {
    return boundResult(result, this.toolList.tools.get(name)?.pages ?? false);
  }

  private async runTool(name: string, args: JsonObject, call: SourceCall): Promise<ToolResult> {
    const tool = this.toolList.tools.get(name);
    if (!tool) return errorResult(this.missingTool(name));
    try {
      // Dialects process their arguments before an operation validates them.
      checkInput(args);
      const trace = parseTraceparent(call.trace);
      const result = await withTrace(trace, () => tool.run(args, this.context(call)));
      if (result.jobId) this.options.jobs.started(result.jobId, name);
      return this.isForeign ? result : this.reads.shorten(name, args, result);
    } catch (error) {
      const body = errorBody(error);
      if (body.code === 'internal' && !call.signal.aborted)
        this.options.log.error('tool call failed', { tool: name, error });
      return errorResult(body);
    }
  }

  private get isForeign(): boolean {
    return (this.options.dialects ?? []).length > 0;
  }

  private missingTool(name: string): Parameters<typeof errorResult>[0] {
    const [toolset] = this.isForeign ? [] : this.options.registry.toolsetsOf(name);
    const hint = `It is in the toolset ${toolset}: use \`errand mcp --toolsets ${toolset}\`, or /mcp?toolsets=${toolset} over HTTP.`;
    const message = `Tool ${name} does not exist.`;
    return { code: 'notFound', message, ...(toolset === undefined ? {} : { hint }) };
  }

  async task(id: string, call: SourceCall): Promise<TaskState | undefined> {
    return boundTask(await this.options.jobs.task(id, this.context(call)));
  }

  async settledTask(id: string, call: SourceCall): Promise<TaskState | undefined> {
    return boundTask(await this.options.jobs.waitUntilOver(id, this.context(call)));
  }

  async cancelTask(id: string, call: SourceCall): Promise<TaskState | undefined> {
    return boundTask(await this.options.jobs.cancel(id, this.context(call)));
  }

  async tasks(cursor: string | undefined, call: SourceCall): Promise<Page<TaskState>> {
    const { items, nextCursor } = await this.options.jobs.list(cursor, this.context(call));
    return { items: items.map(taskState), ...(nextCursor ? { nextCursor } : {}) };
  }

  async resources(cursor: string | undefined, call: SourceCall): Promise<Page<ResourceDefinition>> {
    const page = await this.options.jobs.list(cursor, this.context(call), resourcesPerPage);
    const items = page.items.map((job) => ({
      uri: `job://${job.id}`,
      name: job.name ?? job.id,
      title: `${job.kind ?? 'job'} ${job.name ?? job.id}`,
      description: `${job.status}${job.summary ? `: ${cutText(job.summary, 200)}` : ''}`,
      mimeType: 'application/json',
    }));
    return { items, ...(page.nextCursor ? { nextCursor: page.nextCursor } : {}) };
  }

  resourceTemplates(): ResourceTemplate[] {
    return jobTemplates;
  }

  async read(uri: string, call: SourceCall): Promise<ResourceContent[] | undefined> {
    const id = jobIdOf(uri);
    const job = id && (await this.options.jobs.view(id, this.context(call)));
    if (!job) return undefined;
    const text = JSON.stringify(bound(job, maxTextBytes).value);
    return [{ uri, mimeType: 'application/json', text }];
  }

  async complete(
    template: string,
    argument: string,
    prefix: string,
    call: SourceCall,
  ): Promise<string[]> {
    if (template !== jobTemplates[0]!.uriTemplate || argument !== 'id') return [];
    const { items } = await this.options.jobs.list(undefined, this.context(call), maxCompletions);
    return items
      .filter((job) => job.id.startsWith(prefix) || (prefix && job.name?.startsWith(prefix)))
      .map((job) => job.id);
  }

  async watch(uri: string, changed: () => void, signal: AbortSignal): Promise<void> {
    const id = jobIdOf(uri);
    if (id) await this.options.jobs.watch(id, changed, this.context({ signal }), signal);
  }

  private context(call: SourceCall): CallContext {
    const { caller, origin } = this.options;
    return {
      caller,
      signal: call.signal,
      maxResponseBytes,
      ...(origin ? { origin } : {}),
      ...(call.progress ? { progress: call.progress } : {}),
    };
  }
}

function jobIdOf(uri: string): string | undefined {
  return /^job:\/\/([A-Za-z0-9_-]{1,100})\/?$/.exec(uri)?.[1];
}

/** A task result comes from an operation, which already respects the limit. */
function boundTask(task: TaskState | undefined): TaskState | undefined {
  return task?.result ? { ...task, result: boundResult(task.result, true).result } : task;
}

/**
 * The last size check before the result reaches a model. Structured content with a cursor passes unchanged: its operation
 * respects the limit, and data cut after the cursor would be lost. Text over the limit is replaced by the JSON of the
 * structured content, which is complete.
 */
function boundResult(
  result: ToolResult,
  pages: boolean,
): { result: ToolResult; json: string | undefined } {
  const { structured, text } = result;
  if (result.isError) return { result: boundText(plainError(result)), json: undefined };
  if (structured === undefined)
    return { result: pages ? result : boundText(result), json: undefined };
  const { value, json, omitted } =
    pages || !isRecord(structured)
      ? { value: structured, json: JSON.stringify(structured), omitted: undefined }
      : bound(structured, maxTextBytes);
  if (omitted) {
    const shown = { ...(value as JsonObject | null), omitted };
    return {
      result: { ...result, structured: shown, text: JSON.stringify(shown) },
      json: undefined,
    };
  }
  const isShort = text !== undefined && Buffer.byteLength(text) <= maxTextBytes;
  return { result: { ...result, text: isShort ? text : json! }, json };
}

/** Official clients validate structured errors against the output schema, which only describes successful results. */
function plainError({ structured, ...error }: ToolResult): ToolResult {
  return { ...error, text: error.text ?? JSON.stringify(structured) };
}

/** A result with text only can only report omitted bytes in the text itself. */
function boundText(result: ToolResult): ToolResult {
  const { text } = result;
  if (text === undefined) return result;
  const kept = cutText(text, maxTextBytes);
  if (kept.length === text.length) return result;
  const left = Buffer.byteLength(text) - Buffer.byteLength(kept);
  return {
    ...result,
    text: `${kept}\n[omitted: ${left} bytes; response limit ${maxTextBytes} bytes]`,
  };
}
