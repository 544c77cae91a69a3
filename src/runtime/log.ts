// Writes JSON log lines to stderr, because stdout belongs to results and MCP. Callers pass ids, never secrets.

export type LogLevel = 'debug' | 'info' | 'warn' | 'error';
export type Log = Record<LogLevel, (message: string, fields?: Record<string, unknown>) => void>;

const levels: LogLevel[] = ['debug', 'info', 'warn', 'error'];

export function createLog(
  level: LogLevel,
  write: (line: string) => void = (line) => process.stderr.write(line),
): Log {
  const line =
    (lineLevel: LogLevel) =>
    (message: string, fields: Record<string, unknown> = {}) => {
      if (levels.indexOf(lineLevel) < levels.indexOf(level)) return;
      const serialized = Object.fromEntries(
        Object.entries(fields).map(([k, v]) => [k, serializeError(v)]),
      );
      write(
        `${JSON.stringify({ time: new Date().toISOString(), level: lineLevel, message, ...serialized })}\n`,
      );
    };
  return { debug: line('debug'), info: line('info'), warn: line('warn'), error: line('error') };
}

export const silentLog: Log = createLog('error', () => {});

function serializeError(value: unknown): unknown {
  if (!(value instanceof Error)) return value;
  return {
    message: value.message,
    stack: value.stack,
    cause: value.cause ? serializeError(value.cause) : undefined,
  };
}
