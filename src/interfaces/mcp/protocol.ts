// Shared protocol helpers: the metadata of a call, and the wire format of a tool result.
import type { CLIENT_CAPABILITIES_META_KEY, ServerContext } from '@modelcontextprotocol/server';
import type { ToolResult, JsonObject, SourceCall } from './source.ts';

/** `legacy`: the connection started with `initialize` (2025-11-25 and older). `modern`: it is stateless (2026-07-28). */
export type Era = 'legacy' | 'modern';

/** W3C Trace Context in `_meta`, for transports without headers. */
const traceKey = 'traceparent';

/** Copied from the SDK, so that the server does not have to load it. */
const capabilitiesKey: typeof CLIENT_CAPABILITIES_META_KEY =
  'io.modelcontextprotocol/clientCapabilities';

export const tasksExtension = 'io.modelcontextprotocol/tasks';

/** A schema that accepts everything. The SDK requires a schema even where our own code validates. */
export const anySchema: {
  '~standard': {
    version: 1;
    vendor: string;
    validate(value: unknown): { value: JsonObject };
    types?: { input: JsonObject; output: JsonObject };
  };
} = {
  '~standard': {
    version: 1,
    vendor: 'errand',
    validate: (value) => ({ value: value as JsonObject }),
  },
};

export function toSourceCall(ctx: ServerContext): SourceCall {
  const trace = ctx.mcpReq._meta?.[traceKey];
  return {
    signal: ctx.mcpReq.signal,
    protocol: ctx,
    ...(typeof trace === 'string' ? { trace } : {}),
  };
}

export function declaresTasks(ctx: ServerContext): boolean {
  const envelope = ctx.mcpReq.envelope as JsonObject | undefined;
  const declared = envelope?.[capabilitiesKey] as { extensions?: JsonObject } | undefined;
  return declared?.extensions?.[tasksExtension] !== undefined;
}

/** Converts to an MCP tool result: structured content for programs, and a few lines of text for other readers. */
export function toCallToolResult(result: ToolResult): JsonObject {
  if (result.raw) return result.raw;
  const { structured } = result;
  const text = result.text ?? (structured === undefined ? undefined : JSON.stringify(structured));
  return {
    content: [...(text === undefined ? [] : [{ type: 'text', text }]), ...(result.content ?? [])],
    ...(structured === undefined ? {} : { structuredContent: structured }),
    ...(result.isError ? { isError: true } : {}),
  };
}

/** The same as JSON. `json` is the serialized structured content, if it is already known. */
export function resultJson(result: ToolResult, json?: string): string {
  const { structured, content = [], raw } = result;
  if (raw || json === undefined || result.text === undefined || structured === undefined)
    return JSON.stringify(toCallToolResult(result));
  const blocks = JSON.stringify([{ type: 'text', text: result.text }, ...content]);
  const isError = result.isError ? ',"isError":true' : '';
  return `{"content":${blocks},"structuredContent":${json}${isError}}`;
}
