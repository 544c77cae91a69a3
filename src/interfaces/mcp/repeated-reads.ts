// Notices that a model polls: a third identical look at a job that has nothing new gets the smallest valid response.
import { isRecord } from '../../runtime/json.ts';
import type { JsonObject, ToolResult } from './source.ts';

/** The tools that look at one job, and the fields that their output schemas require. */
const requiredFields = new Map([
  ['get_job', ['id', 'status']],
  ['read_output', ['status', 'text']],
]);
/** An ended job is read again for other reasons, for example after the conversation was shortened. */
const activeStatuses = new Set(['queued', 'running', 'input_required']);
const maxIdentical = 2;
const maxRemembered = 200;
const nothingNew = 'Nothing new. Call wait_for_jobs.';

/** Belongs to one session. */
export class RepeatedReads {
  private readonly seen = new Map<string, { state: string; count: number }>();

  /** Returns the result, or a short one if the session has already seen the same state twice. */
  shorten(name: string, args: JsonObject, result: ToolResult): ToolResult {
    const fields = requiredFields.get(name);
    const { structured: content } = result;
    if (!fields) {
      this.seen.clear();
      return result;
    }
    if (!isRecord(content) || !activeStatuses.has(String(content.status))) return result;
    const key = JSON.stringify([name, args]);
    const state = JSON.stringify(content, withoutTimes);
    const known = this.seen.get(key);
    const count = known?.state === state ? known.count + 1 : 1;
    this.seen.delete(key);
    this.seen.set(key, { state, count });
    if (this.seen.size > maxRemembered) this.seen.delete(this.seen.keys().next().value!);
    if (count <= maxIdentical) return result;
    const least = fields.map((field) => [field, field === 'text' ? '' : content[field]]);
    return {
      text: nothingNew,
      structured: { ...Object.fromEntries(least), unchanged: true, hint: nothingNew },
    };
  }
}

/** Times grow with every look, and memory and CPU change all the time. */
const withoutTimes = (name: string, value: unknown): unknown =>
  /Ms$|^memory|^cpu|^processes$/.test(name) ? undefined : value;
