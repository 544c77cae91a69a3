// The SDK's server, which answers parameters that do not fit its schema with "internal error". They are the caller's
// mistake: -32602, with the first thing that is wrong.
import { ProtocolError, ProtocolErrorCode, Server } from '@modelcontextprotocol/server';

type Wrap = Server['_wrapHandler'];

export class StrictServer extends Server {
  protected override _wrapHandler(...[method, handler]: Parameters<Wrap>): ReturnType<Wrap> {
    const wrapped = super._wrapHandler(method, handler);
    return async (request, context) => {
      try {
        return await wrapped(request, context);
      } catch (error) {
        const reason = schemaProblem(error);
        if (reason === undefined) throw error;
        const message = `Invalid params for ${method}: ${reason}`;
        throw new ProtocolError(ProtocolErrorCode.InvalidParams, message);
      }
    };
  }
}

/** The SDK throws a plain error whose message is the list of issues as JSON. */
function schemaProblem(error: unknown): string | undefined {
  if (!(error instanceof Error) || error.constructor !== Error) return undefined;
  if (!error.message.startsWith('[')) return undefined;
  try {
    const [first] = JSON.parse(error.message) as { path?: string[]; message?: string }[];
    if (!first || !Array.isArray(first.path) || first.message === undefined) return undefined;
    return `${first.path.join('.')}: ${first.message}`;
  } catch {
    return undefined;
  }
}
