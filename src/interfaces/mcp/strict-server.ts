// Extends the SDK server, which reports invalid parameters as "internal error". This class reports them as the caller's
// error (-32602) with the first schema issue.
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

/** The SDK throws a plain Error whose message is a JSON list of issues. */
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
