// The source in the process that holds the operations: tools of one caller, their jobs as tasks and resources.
import type { CallContext, Caller, Origin } from '../../operation.ts';
import { errorBody } from '../../errors.ts';
import { checkInput } from '../../runtime/input-limits.ts';
import type { Log } from '../../runtime/log.ts';
import { parseTraceparent, withTrace } from '../../runtime/trace.ts';
import { bound, cutText } from './bound.ts';
import { resultJson } from './protocol.ts';
import { JobTasks, taskState } from './jobs.ts';
import { jobTemplates } from './templates.ts';
import type { ToolTable, ToolTables } from './table.ts';
import {
  errorAnswer,
  type Answer,
  type Catalog,
  type JsonObject,
  type Page,
  type ResourceCard,
  type ResourceContent,
  type ResourceTemplateCard,
  type Source,
  type SourceCall,
  type TaskState,
} from './source.ts';

/** Bytes of JSON and of text in one answer: about 8,000 tokens each, a third of what Claude Code accepts. */
const structuredBytesMax = 48_000;
const textBytesMax = 32_000;
/** What an operation may hand out at once, with room for what stands around it. */
const pieceBytesMax = 30_000;
const resourcesPerPage = 50;
const completionsMax = 100;

export interface LocalSourceOptions {
  tables: ToolTables;
  jobs: JobTasks;
  toolsets?: readonly string[];
  dialects?: readonly string[];
  caller: Caller | undefined;
  origin?: Origin;
  log: Log;
}

export class LocalSource implements Source {
  private readonly options: LocalSourceOptions;
  private readonly table: ToolTable;

  /** Throws an AppError for a choice that cannot be served. */
  constructor(options: LocalSourceOptions) {
    this.options = options;
    this.table = options.tables.table(options);
  }

  async catalog(): Promise<Catalog> {
    const { caller } = this.options;
    const tools = [...this.table.tools.values()].filter((tool) => tool.isFor(caller));
    return { tools: tools.map((tool) => tool.card), instructions: this.table.instructions };
  }

  async call(name: string, args: JsonObject, call: SourceCall): Promise<Answer> {
    return boundAnswer(await this.answer(name, args, call)).answer;
  }

  async rawCall(name: string, args: JsonObject, call: SourceCall): Promise<string> {
    const { answer, json } = boundAnswer(await this.answer(name, args, call));
    return resultJson(answer, json);
  }

  private async answer(name: string, args: JsonObject, call: SourceCall): Promise<Answer> {
    const tool = this.table.tools.get(name);
    if (!tool) return errorAnswer(this.missing(name));
    try {
      // Dialects work on their arguments before an operation sees them.
      checkInput(args);
      const trace = parseTraceparent(call.trace);
      const answer = await withTrace(trace, () => tool.run(args, this.context(call)));
      if (answer.jobId) this.options.jobs.started(answer.jobId, name);
      return answer;
    } catch (error) {
      const body = errorBody(error);
      if (body.code === 'internal' && !call.signal.aborted)
        this.options.log.error('a tool call failed', { tool: name, error });
      return errorAnswer(body);
    }
  }

  private missing(name: string): Parameters<typeof errorAnswer>[0] {
    const [toolset] = this.options.tables.toolsetsOf(name);
    const hint = `It is in the toolset ${toolset}: \`errand mcp --toolsets ${toolset}\`, over HTTP /mcp?toolsets=${toolset}.`;
    const message = `There is no tool ${name}.`;
    return { code: 'notFound', message, ...(toolset === undefined ? {} : { hint }) };
  }

  async task(id: string, call: SourceCall): Promise<TaskState | undefined> {
    return boundTask(await this.options.jobs.task(id, this.context(call)));
  }

  async settledTask(id: string, call: SourceCall): Promise<TaskState | undefined> {
    return boundTask(await this.options.jobs.settled(id, this.context(call)));
  }

  async cancelTask(id: string, call: SourceCall): Promise<TaskState | undefined> {
    return boundTask(await this.options.jobs.cancel(id, this.context(call)));
  }

  async tasks(cursor: string | undefined, call: SourceCall): Promise<Page<TaskState>> {
    const { items, nextCursor } = await this.options.jobs.list(cursor, this.context(call));
    return { items: items.map(taskState), ...(nextCursor ? { nextCursor } : {}) };
  }

  async resources(cursor: string | undefined, call: SourceCall): Promise<Page<ResourceCard>> {
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

  resourceTemplates(): ResourceTemplateCard[] {
    return jobTemplates;
  }

  async read(uri: string, call: SourceCall): Promise<ResourceContent[] | undefined> {
    const id = jobIdOf(uri);
    const job = id && (await this.options.jobs.view(id, this.context(call)));
    if (!job) return undefined;
    const text = JSON.stringify(bound(job, structuredBytesMax).value);
    return [{ uri, mimeType: 'application/json', text }];
  }

  async complete(
    template: string,
    argument: string,
    prefix: string,
    call: SourceCall,
  ): Promise<string[]> {
    if (template !== jobTemplates[0]!.uriTemplate || argument !== 'id') return [];
    const { items } = await this.options.jobs.list(undefined, this.context(call), completionsMax);
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
      answerBytesMax: pieceBytesMax,
      ...(origin ? { origin } : {}),
      ...(call.progress ? { progress: call.progress } : {}),
    };
  }
}

function jobIdOf(uri: string): string | undefined {
  return /^job:\/\/([A-Za-z0-9_-]{1,100})\/?$/.exec(uri)?.[1];
}

function boundTask(task: TaskState | undefined): TaskState | undefined {
  return task?.answer ? { ...task, answer: boundAnswer(task.answer).answer } : task;
}

function boundAnswer(answer: Answer): { answer: Answer; json: string | undefined } {
  const structured = bound(answer.structured, structuredBytesMax);
  const text = answer.text ?? JSON.stringify(structured.value);
  const bounded: Answer = { ...answer };
  if (answer.structured !== undefined) bounded.structured = structured.value;
  const notes = structured.left.slice(0, 10).map((line) => `left out: ${line}`);
  const kept = cutText(text ?? '', textBytesMax);
  if (text !== undefined && kept.length < text.length)
    notes.push(`left out: text after ${textBytesMax} bytes`);
  if (notes.length > 0) {
    notes.push('Ask for less at once (limit, cursor, byte budget) to see the rest.');
    bounded.text = `${kept}\n${notes.join('\n')}`;
  } else if (text !== undefined) bounded.text = kept;
  return { answer: bounded, json: structured.json };
}
