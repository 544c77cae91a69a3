// Writes queue rows. A queue is created on first use; set_queue changes it.
import type { Step } from '../store/store.ts';

export interface QueueSettings {
  maxConcurrency?: number | null;
  paused?: boolean;
}

export const queueStep = (kind: string, name: string, now: number): Step => ({
  sql: 'INSERT INTO queues (kind, name, paused, created_at) VALUES (?, ?, 0, ?) ON CONFLICT DO NOTHING',
  params: [kind, name, now],
});

export function queueSettingSteps(kind: string, name: string, settings: QueueSettings): Step[] {
  const steps: Step[] = [];
  if (settings.maxConcurrency !== undefined) {
    steps.push({
      sql: 'UPDATE queues SET concurrency_max = ? WHERE kind = ? AND name = ?',
      params: [settings.maxConcurrency, kind, name],
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
