// Which tools a client sees: operations of the chosen toolsets, or the tools of the chosen dialects. Cards (JSON) are
// made once per tool, because schemas are costly to derive and the same for everybody.
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
import { instructions } from './instructions.ts';
import { inputSchemaOf, outputSchemaOf, wholeSchemaOf } from './schema.ts';
import type { Answer, ToolCard } from './source.ts';

export interface Tool {
  card: ToolCard;
  /** Whether this caller could ever use it. */
  isFor(caller: Caller | undefined): boolean;
  run(args: unknown, context: CallContext): Promise<Answer>;
}

export interface ToolTable {
  tools: ReadonlyMap<string, Tool>;
  instructions: string;
}

export interface ToolChoice {
  toolsets?: readonly string[];
  dialects?: readonly string[];
}

export class ToolTables {
  private readonly operations: Operations;
  private readonly dialects: readonly Dialect[];
  private readonly made = new Map<string, ToolTable>();
  private readonly cards = new WeakMap<object, ToolCard>();

  constructor(operations: Operations, dialects: readonly Dialect[]) {
    this.operations = operations;
    this.dialects = dialects;
  }

  table(choice: ToolChoice): ToolTable {
    const toolsets = [...new Set(choice.toolsets)].toSorted();
    const dialects = [...new Set(choice.dialects)];
    const key = JSON.stringify([toolsets, dialects]);
    const known = this.made.get(key);
    if (known) return known;
    const table = this.make(toolsets, dialects);
    this.made.set(key, table);
    return table;
  }

  toolsets(): string[] {
    return [...new Set(this.operations.list().flatMap((operation) => operation.toolsets ?? []))];
  }

  /** Where a tool is that a table has not got. */
  toolsetsOf(name: string): readonly string[] {
    return this.operations.find(name)?.toolsets ?? [];
  }

  private make(toolsets: string[], names: string[]): ToolTable {
    const dialects = names.map((name) => this.dialect(name));
    const wanted = new Set(dialects.length > 0 ? toolsets : ['default', ...toolsets]);
    this.checkToolsets(toolsets);
    const tools = new Map<string, Tool>();
    const makers = new Map<string, string[]>();
    const put = (maker: string, tool: Tool) => {
      const { name } = tool.card;
      makers.set(name, [...(makers.get(name) ?? []), maker]);
      tools.set(name, tool);
    };
    for (const dialect of dialects)
      for (const tool of dialect.tools ?? []) put(dialect.name, this.dialectTool(tool));
    for (const operation of this.operations.list())
      if (isWanted(operation, wanted)) put('errand', this.operationTool(operation));
    refuseCollisions(makers);
    const texts = dialects.map((dialect) => dialect.instructions ?? '').filter(Boolean);
    return { tools, instructions: texts.length > 0 ? texts.join('\n\n') : instructions };
  }

  private dialect(name: string): Dialect {
    const dialect = this.dialects.find((each) => each.name === name);
    if (dialect?.tools) return dialect;
    const known = this.dialects.filter((each) => each.tools).map((each) => each.name);
    throw new AppError('invalidInput', `There is no dialect \`${name}\` with tools.`, {
      hint: `Known: ${known.join(', ') || 'none'}.`,
    });
  }

  private checkToolsets(names: readonly string[]): void {
    const known = new Set([...this.toolsets(), 'default', 'all']);
    const unknown = names.filter((name) => !known.has(name));
    if (unknown.length === 0) return;
    throw new AppError('invalidInput', `There is no toolset \`${unknown.join('`, `')}\`.`, {
      hint: `Known: ${[...known].join(', ')}.`,
    });
  }

  private operationTool(operation: Operation): Tool {
    return {
      card: this.card(operation, () => operationCard(operation)),
      isFor: (caller) => this.operations.mayCall(operation.name, caller),
      run: async (args, context) => {
        const output = await this.operations.call(operation.name, args, context);
        return operationAnswer(operation, output);
      },
    };
  }

  private dialectTool(tool: DialectTool): Tool {
    return {
      card: this.card(tool, () => dialectCard(tool)),
      isFor: (caller) => hasScope(caller, tool.effect === 'read' ? 'read' : 'run'),
      run: async (args, context) => {
        const parsed = tool.input.safeParse(args ?? {});
        if (!parsed.success) {
          const error = inputError(tool, parsed.error);
          if (!tool.refused) throw error;
          return tool.refused(error);
        }
        return tool.run(parsed.data, { operations: this.operations, context });
      },
    };
  }

  private card(of: object, make: () => ToolCard): ToolCard {
    const known = this.cards.get(of);
    if (known) return known;
    const card = make();
    this.cards.set(of, card);
    return card;
  }
}

/** The answer of an operation, in every form at once. */
export function operationAnswer(operation: Operation, output: unknown): Answer {
  const jobId = operation.startsJob?.(output);
  const content = operation.content?.(output);
  return {
    structured: output,
    ...(operation.text ? { text: operation.text(output) } : {}),
    ...(content && content.length > 0 ? { content } : {}),
    ...(jobId ? { jobId } : {}),
  };
}

/** What a dialect's tool may do is decided by the operations it calls. */
const hasScope = (caller: Caller | undefined, scope: Scope): boolean =>
  caller !== undefined && (caller.scopes.has(scope) || caller.scopes.has('admin'));

function isWanted(operation: Operation, toolsets: ReadonlySet<string>): boolean {
  const own = operation.toolsets ?? [];
  return own.length > 0 && (toolsets.has('all') || own.some((toolset) => toolsets.has(toolset)));
}

function operationCard(operation: Operation): ToolCard {
  return {
    name: operation.name,
    title: operation.title,
    description: operation.description,
    inputSchema: inputSchemaOf(operation.input, operation.rareInput),
    outputSchema: outputSchemaOf(operation.output),
    annotations: annotations(operation),
    ...(operation.startsJob ? { startsJob: true as const } : {}),
  };
}

function dialectCard(tool: DialectTool): ToolCard {
  return {
    name: tool.name,
    title: tool.title,
    description: tool.description,
    inputSchema: wholeSchemaOf(tool.input, 'input'),
    ...(tool.output ? { outputSchema: wholeSchemaOf(tool.output, 'output') } : {}),
    annotations: annotations(tool),
  };
}

function annotations(tool: Pick<Operation, 'effect' | 'idempotent' | 'openWorld'>) {
  return {
    readOnlyHint: tool.effect === 'read',
    destructiveHint: tool.effect === 'destroy',
    idempotentHint: tool.idempotent ?? tool.effect === 'read',
    openWorldHint: tool.openWorld ?? false,
  };
}

function refuseCollisions(makers: ReadonlyMap<string, string[]>): void {
  const colliding = [...makers].filter(([, names]) => names.length > 1);
  if (colliding.length === 0) return;
  const list = colliding.map(([tool, names]) => `${tool} (${names.join(', ')})`).join('; ');
  throw new AppError('invalidInput', `These cannot be served together, tools collide: ${list}.`, {
    hint: 'Start one `errand mcp` per dialect; they share the same server and jobs.',
  });
}
