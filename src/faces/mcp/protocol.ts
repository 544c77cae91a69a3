// Small shared words of the protocol: what a call carries, what an answer looks like on the wire.
import { CLIENT_CAPABILITIES_META_KEY, type ServerContext } from '@modelcontextprotocol/server';
import type { Answer, JsonObject, SourceCall } from './source.ts';

/** Whether a connection began with `initialize` (2025-11-25 and older) or is stateless (2026-07-28). */
export type Era = 'legacy' | 'modern';

/** Where a client puts its trace when the transport has no headers: W3C Trace Context in `_meta`. */
const traceKey = 'traceparent';

export const tasksExtension = 'io.modelcontextprotocol/tasks';

/** The schema that checks nothing: the SDK wants one where our own code checks. */
export const anything: {
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

export function plainCall(ctx: ServerContext): SourceCall {
  const trace = ctx.mcpReq._meta?.[traceKey];
  return {
    signal: ctx.mcpReq.signal,
    protocol: ctx,
    ...(typeof trace === 'string' ? { trace } : {}),
  };
}

export function declaresTasks(ctx: ServerContext): boolean {
  const envelope = ctx.mcpReq.envelope as JsonObject | undefined;
  const declared = envelope?.[CLIENT_CAPABILITIES_META_KEY] as
    | { extensions?: JsonObject }
    | undefined;
  return declared?.extensions?.[tasksExtension] !== undefined;
}

/** An answer as a tool result: structure for programs, a few lines of text for everybody else. */
export function resultOf(answer: Answer): JsonObject {
  if (answer.raw) return answer.raw;
  const { structured } = answer;
  const text = answer.text ?? (structured === undefined ? undefined : JSON.stringify(structured));
  return {
    content: [...(text === undefined ? [] : [{ type: 'text', text }]), ...(answer.content ?? [])],
    ...(structured === undefined ? {} : { structuredContent: structured }),
    ...(answer.isError ? { isError: true } : {}),
  };
}

/** The same as JSON; `json` is that of the structure, where it is known already. */
export function resultJson(answer: Answer, json?: string): string {
  const { structured, content = [], raw } = answer;
  if (raw || json === undefined || answer.text === undefined || structured === undefined)
    return JSON.stringify(resultOf(answer));
  const blocks = JSON.stringify([{ type: 'text', text: answer.text }, ...content]);
  const isError = answer.isError ? ',"isError":true' : '';
  return `{"content":${blocks},"structuredContent":${json}${isError}}`;
}
