// Finds the jobs that depend on an ended job: almost always none. Lookups from the same tick share one read.
import type { Store } from '../store/store.ts';

/** A table with fewer rows than this is read completely. */
const maxRows = 64;

interface Row {
  afterId: string;
  jobId: string;
}

interface Asked {
  id: string;
  resolve(jobIds: string[]): void;
  reject(error: unknown): void;
}

export class DependentsReader {
  private readonly store: Store;
  private asked: Asked[] = [];

  constructor(store: Store) {
    this.store = store;
  }

  find(afterId: string): Promise<string[]> {
    return new Promise((resolve, reject) => {
      this.asked.push({ id: afterId, resolve, reject });
      if (this.asked.length === 1) queueMicrotask(() => this.readAll());
    });
  }

  private readAll(): void {
    const all = this.asked;
    this.asked = [];
    this.rows(all.map(({ id }) => id)).then(
      (rows) => {
        for (const { id, resolve } of all) {
          resolve(rows.filter(({ afterId }) => afterId === id).map(({ jobId }) => jobId));
        }
      },
      (error: unknown) => {
        for (const { reject } of all) reject(error);
      },
    );
  }

  private async rows(ids: readonly string[]): Promise<Row[]> {
    const few = await this.store.read<Row>(`${columns} LIMIT ?`, [maxRows]);
    if (few.length < maxRows) return few;
    const found = ids.map((id) => this.store.read<Row>(`${columns} WHERE after_id = ?`, [id]));
    return (await Promise.all(found)).flat();
  }
}

const columns = 'SELECT after_id AS "afterId", job_id AS "jobId" FROM dependencies';
