// The rows of queues: made when first used, changed by whoever runs the server.
import type { Step } from '../store/store.ts';

export interface QueueSettings {
  concurrencyMax?: number | null;
  paused?: boolean;
}

export const queueStep = (kind: string, name: string, now: number): Step => ({
  sql: 'INSERT INTO queues (kind, name, paused, created_at) VALUES (?, ?, 0, ?) ON CONFLICT DO NOTHING',
  params: [kind, name, now],
});

export function queueSettingSteps(kind: string, name: string, settings: QueueSettings): Step[] {
  const steps: Step[] = [];
  if (settings.concurrencyMax !== undefined) {
    steps.push({
      sql: 'UPDATE queues SET concurrency_max = ? WHERE kind = ? AND name = ?',
      params: [settings.concurrencyMax, kind, name],
    });
  }
  if (settings.paused !== undefined) {
    steps.push({
      sql: 'UPDATE queues SET paused = ? WHERE kind = ? AND name = ?',
      params: [settings.paused ? 1 : 0, kind, name],
    });
  }
  return steps;
}
