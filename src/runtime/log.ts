// Structured lines to stderr (stdout belongs to results and to MCP). Never given secrets: callers pass ids, not values.

export type LogLevel = 'debug' | 'info' | 'warn' | 'error';
export type Log = Record<LogLevel, (message: string, facts?: Record<string, unknown>) => void>;

const order: LogLevel[] = ['debug', 'info', 'warn', 'error'];

export function createLog(
  level: LogLevel,
  write: (line: string) => void = (line) => process.stderr.write(line),
): Log {
  const line =
    (at: LogLevel) =>
    (message: string, facts: Record<string, unknown> = {}) => {
      if (order.indexOf(at) < order.indexOf(level)) return;
      const plain = Object.fromEntries(Object.entries(facts).map(([k, v]) => [k, readable(v)]));
      write(
        `${JSON.stringify({ time: new Date().toISOString(), level: at, message, ...plain })}\n`,
      );
    };
  return { debug: line('debug'), info: line('info'), warn: line('warn'), error: line('error') };
}

export const silentLog: Log = createLog('error', () => {});

function readable(value: unknown): unknown {
  if (!(value instanceof Error)) return value;
  return {
    message: value.message,
    stack: value.stack,
    cause: value.cause ? readable(value.cause) : undefined,
  };
}
