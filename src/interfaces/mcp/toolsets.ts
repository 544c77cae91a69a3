// Selects the tools that a client sees: the operations of the selected toolsets, or the tools of the selected dialects. Tool
// definitions are cached, because schemas are expensive to derive and the same for all callers.
import {
  inputError,
  type CallContext,
  type Caller,
  type Operation,
  type Operations,
  type Scope,
} from '../../operation.ts';
import type { Dialect, DialectTool } from '../../dialect.ts';
import { AppError } from '../../errors.ts';
import { isRecord } from '../../runtime/json.ts';
import { instructions } from './instructions.ts';
import { lenientInput } from './lenient-input.ts';
import { absentTools, definitionWithoutMentions, withoutMentions } from './mentions.ts';
import { toolInputSchema, toolOutputSchema, completeSchema } from './schema.ts';
import type { ToolResult, Catalog, ToolDefinition } from './source.ts';

interface Tool {
  definition: ToolDefinition;
  /** Whether the caller's key allows this tool. */
  isAllowed(caller: Caller | undefined): boolean;
  /** The response has a cursor or is complete by contract, so nothing may be cut from it. */
  pages: boolean;
  run(args: unknown, context: CallContext): Promise<ToolResult>;
}

export interface ToolList {
  tools: ReadonlyMap<string, Tool>;
  /** The part that a caller may see. */
  catalog(caller: Caller | undefined): Catalog;
}

export interface ToolSelection {
  toolsets?: readonly string[];
  dialects?: readonly string[];
}

export class ToolRegistry {
  private readonly operations: Operations;
  private readonly dialects: readonly Dialect[];
  private readonly baseUrl: () => string | undefined;
  private readonly lists = new Map<string, ToolList>();
  private readonly definitions = new WeakMap<object, ToolDefinition>();
  private allNames: ReadonlySet<string> | undefined;

  constructor(
    operations: Operations,
    dialects: readonly Dialect[],
    baseUrl: () => string | undefined = () => undefined,
  ) {
    this.operations = operations;
    this.dialects = dialects;
    this.baseUrl = baseUrl;
  }

  select(selection: ToolSelection): ToolList {
    const toolsets = [...new Set(selection.toolsets)].toSorted();
    const dialects = [...new Set(selection.dialects)];
    const key = JSON.stringify([toolsets, dialects]);
    const cached = this.lists.get(key);
    if (cached) return cached;
    const toolList = this.build(toolsets, dialects);
    this.lists.set(key, toolList);
    return toolList;
  }

  toolsets(): string[] {
    return [...new Set(this.operations.list().flatMap((operation) => operation.toolsets ?? []))];
  }

  /** The toolsets that contain a tool. */
  toolsetsOf(name: string): readonly string[] {
    return this.operations.find(name)?.toolsets ?? [];
  }

  private build(toolsets: string[], names: string[]): ToolList {
    const dialects = names.map((name) => this.dialect(name));
    const wanted = new Set(dialects.length > 0 ? toolsets : ['default', ...toolsets]);
    this.checkToolsets(toolsets);
    const tools = new Map<string, Tool>();
    const providers = new Map<string, string[]>();
    const add = (provider: string, tool: Tool) => {
      const { name } = tool.definition;
      providers.set(name, [...(providers.get(name) ?? []), provider]);
      tools.set(name, tool);
    };
    for (const dialect of dialects)
      for (const tool of dialect.tools ?? []) add(dialect.name, this.dialectTool(tool));
    for (const operation of this.operations.list())
      if (isWanted(operation, wanted)) add('errand', this.operationTool(operation));
    rejectCollisions(providers);
    const texts = dialects.map((dialect) => dialect.instructions ?? '').filter(Boolean);
    const text = texts.length > 0 ? texts.join('\n\n') : instructions;
    // Clients of another system's tools do not know our toolsets.
    const hint = dialects.length > 0 ? {} : { missingToolHint };
    return { tools, catalog: catalogs(tools, text, this.toolNames(), hint) };
  }

  private toolNames(): ReadonlySet<string> {
    this.allNames ??= new Set([
      ...this.operations.list().map(({ name }) => name),
      ...this.dialects.flatMap(({ tools = [] }) => tools.map(({ name }) => name)),
    ]);
    return this.allNames;
  }

  private dialect(name: string): Dialect {
    const dialect = this.dialects.find((each) => each.name === name);
    if (dialect?.tools) return dialect;
    const known = this.dialects.filter((each) => each.tools).map((each) => each.name);
    throw new AppError('invalidInput', `Dialect \`${name}\` does not exist or has no tools.`, {
      hint: `Available dialects: ${known.join(', ') || 'none'}.`,
    });
  }

  private checkToolsets(names: readonly string[]): void {
    const known = new Set([...this.toolsets(), 'default', 'all']);
    const unknown = names.filter((name) => !known.has(name));
    if (unknown.length === 0) return;
    throw new AppError('invalidInput', `Unknown toolset: \`${unknown.join('`, `')}\`.`, {
      hint: `Available toolsets: ${[...known].join(', ')}.`,
    });
  }

  private operationTool(operation: Operation): Tool {
    return {
      definition: this.definition(operation, () => operationDefinition(operation)),
      isAllowed: (caller) => this.operations.mayCall(operation.name, caller),
      pages: operation.pages ?? false,
      run: async (args, context) => {
        const input = lenientInput(operation.input, args);
        const output = await this.operations.call(operation.name, input, context);
        return operationResult(operation, output, input);
      },
    };
  }

  private dialectTool(tool: DialectTool): Tool {
    return {
      definition: this.definition(tool, () => dialectDefinition(tool)),
      isAllowed: (caller) =>
        hasScope(caller, tool.scope ?? (tool.effect === 'read' ? 'read' : 'run')),
      pages: tool.pages ?? false,
      run: async (args, context) => {
        const input = args ?? {};
        const parsed = tool.input.safeParse(tool.prepare ? tool.prepare(input) : input);
        if (!parsed.success) {
          const error = inputError(tool, parsed.error);
          if (!tool.refused) throw error;
          return tool.refused(error, parsed.error);
        }
        const baseUrl = this.baseUrl();
        return tool.run(parsed.data, { operations: this.operations, context, baseUrl });
      },
    };
  }

  private definition(of: object, make: () => ToolDefinition): ToolDefinition {
    const known = this.definitions.get(of);
    if (known) return known;
    const definition = make();
    this.definitions.set(of, definition);
    return definition;
  }
}

const missingToolHint =
  'It may be in a toolset that is not selected. To get every tool, use `errand mcp --toolsets all`, or /mcp?toolsets=all over HTTP.';

/** Builds catalogs without mentions of tools that the caller does not have; cached per set of visible tools. */
function catalogs(
  tools: ReadonlyMap<string, Tool>,
  text: string,
  known: ReadonlySet<string>,
  hint: Pick<Catalog, 'missingToolHint'>,
): ToolList['catalog'] {
  const cache = new Map<string, Catalog>();
  return (caller) => {
    const shown = [...tools.values()]
      .filter((tool) => tool.isAllowed(caller))
      .map(({ definition }) => definition);
    const names = shown.map(({ name }) => name);
    const key = names.join();
    const cached = cache.get(key);
    if (cached) return cached;
    const isAbsent = absentTools(known, new Set(names));
    const catalog = {
      tools: shown.map((definition) => definitionWithoutMentions(definition, isAbsent)),
      instructions: withoutMentions(text, isAbsent),
      ...hint,
    };
    cache.set(key, catalog);
    return catalog;
  };
}

/** Converts operation output to a tool result: structured content, text and content blocks. */
export function operationResult(operation: Operation, output: unknown, args?: unknown): ToolResult {
  const jobId = operation.startsJob?.(output);
  const content = operation.content?.(output);
  return {
    structured: operation.brief ? operation.brief.of(output, isRecord(args) ? args : {}) : output,
    ...(operation.text ? { text: operation.text(output) } : {}),
    ...(content && content.length > 0 ? { content } : {}),
    ...(jobId ? { jobId } : {}),
  };
}

/** Only decides visibility: the operations that a dialect tool calls enforce permissions. */
const hasScope = (caller: Caller | undefined, scope: Scope): boolean =>
  caller !== undefined && (caller.scopes.has(scope) || caller.scopes.has('admin'));

function isWanted(operation: Operation, toolsets: ReadonlySet<string>): boolean {
  const own = operation.toolsets ?? [];
  return own.length > 0 && (toolsets.has('all') || own.some((toolset) => toolsets.has(toolset)));
}

function operationDefinition(operation: Operation): ToolDefinition {
  return {
    name: operation.name,
    title: operation.title,
    description: operation.description,
    inputSchema: toolInputSchema(operation.input, operation.rareInput, operation.unlistedInput),
    outputSchema: toolOutputSchema(operation.brief?.schema ?? operation.output),
    annotations: annotations(operation),
    ...(operation.startsJob ? { startsJob: true as const } : {}),
    ...(operation.alwaysLoad ? { _meta: alwaysLoaded } : {}),
  };
}

/** Claude Code shows its model only the names of other tools until it searches for one. */
const alwaysLoaded = { 'anthropic/alwaysLoad': true };

function dialectDefinition(tool: DialectTool): ToolDefinition {
  return {
    name: tool.name,
    title: tool.title,
    description: tool.description,
    inputSchema: completeSchema(tool.input, 'input'),
    ...(tool.output ? { outputSchema: completeSchema(tool.output, 'output') } : {}),
    annotations: annotations(tool),
    ...(tool.alwaysLoad ? { _meta: alwaysLoaded } : {}),
  };
}

/** Omits the hints that the protocol defines as meaningless for read-only tools. */
function annotations(
  tool: Pick<Operation, 'effect' | 'idempotent' | 'openWorld'>,
): ToolDefinition['annotations'] {
  const openWorldHint = tool.openWorld ?? false;
  if (tool.effect === 'read') return { readOnlyHint: true, openWorldHint };
  return {
    readOnlyHint: false,
    destructiveHint: tool.effect === 'destroy',
    idempotentHint: tool.idempotent ?? false,
    openWorldHint,
  };
}

function rejectCollisions(providers: ReadonlyMap<string, string[]>): void {
  const colliding = [...providers].filter(([, names]) => names.length > 1);
  if (colliding.length === 0) return;
  const list = colliding.map(([tool, names]) => `${tool} (${names.join(', ')})`).join('; ');
  throw new AppError(
    'invalidInput',
    `These dialects and toolsets define the same tool names: ${list}.`,
    {
      hint: 'Start one `errand mcp` per dialect. They share the same server and jobs.',
    },
  );
}
