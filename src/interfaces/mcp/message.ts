// Parses one JSON-RPC message under the limits that both transports share.
import { callerError } from '../../errors.ts';
import { checkText, inputLimits } from '../../runtime/input-limits.ts';
import { parseLosslessJson } from '../../runtime/json.ts';

/** The SDK serializes the message again, which is recursive. The other limits apply to the arguments of a tool. */
const messageLimits = {
  maxDepth: inputLimits.maxDepth + 10,
  maxKeys: Infinity,
  maxStringChars: Infinity,
  maxNumberChars: Infinity,
};

/** Throws invalidInput if the message exceeds a limit and SyntaxError if it is not JSON. */
export function parseMessage(text: string): unknown {
  checkText(text, messageLimits);
  return parseLosslessJson(text);
}

export function textOfError(error: unknown): string {
  const { code, message, hint } = callerError(error);
  return `${code}: ${message} ${hint}`;
}
