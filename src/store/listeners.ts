// Listeners for commits and for queues that may have something to claim.

export class StoreListeners {
  private readonly commits = new Set<() => void>();
  private readonly queues = new Set<(queue: string) => void>();

  onCommit(listener: () => void): () => void {
    this.commits.add(listener);
    return () => this.commits.delete(listener);
  }

  onReady(listener: (queue: string) => void): () => void {
    this.queues.add(listener);
    return () => this.queues.delete(listener);
  }

  /** Call after a commit. `queues` are the queues that may have something to claim now. */
  notify(queues: readonly string[]): void {
    for (const listener of this.commits) listener();
    for (const queue of queues) for (const listener of this.queues) listener(queue);
  }
}
