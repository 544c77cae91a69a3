// The runner's side of the RunPod worker protocol over plain node:http. It is small because its load time is part of
// every cold start.
import { Agent, request } from 'node:http';

/** Marks a post that is not the end of its job. */
export const progressStatus = 'IN_PROGRESS';

interface ProtocolOptions {
  takeUrl: string;
  doneUrl: string;
  streamUrl: string;
  pingUrl: string;
  key: string;
  workerId: string;
}

export interface WorkerResponse {
  status: number;
  text: string;
}

const responseTimeoutMs = 90_000;

export class Protocol {
  private readonly options: ProtocolOptions;
  private readonly agent = new Agent({ keepAlive: true, maxSockets: 256 });

  constructor(options: ProtocolOptions) {
    this.options = options;
  }

  /**
   * Extension of RunPod's protocol: names the running jobs, so that jobs lost on the way return to the queue
   * immediately.
   */
  take(count: number, running: readonly string[]): Promise<WorkerResponse> {
    const base = this.url(this.options.takeUrl).replace('$ID', this.options.workerId);
    const state = `job_in_progress=${running.length > 0 ? 1 : 0}&running=${running.join(',')}`;
    const batch = base.replace('/job-take/', '/job-take-batch/');
    return this.call('GET', `${batch}&batch_size=${count}&${state}`);
  }

  stops(): Promise<WorkerResponse> {
    const base = this.url(this.options.takeUrl).replace('$ID', this.options.workerId);
    return this.call('GET', base.replace('/job-take/', '/job-stop/'));
  }

  done(jobId: string, body: string, isStream: boolean): Promise<WorkerResponse> {
    return this.call(
      'POST',
      `${this.jobUrl(this.options.doneUrl, jobId)}&isStream=${isStream}`,
      body,
    );
  }

  /** Extension of RunPod's protocol: numbers the chunk, so that a repeated one is detected. */
  chunk(jobId: string, n: number, body: string): Promise<WorkerResponse> {
    const url = `${this.jobUrl(this.options.streamUrl, jobId)}&isStream=false&n=${n}`;
    return this.call('POST', url, body);
  }

  ping(jobIds: readonly string[]): Promise<WorkerResponse> {
    const ids = jobIds.length > 0 ? `&job_id=${encodeURIComponent(jobIds.join(','))}` : '';
    return this.call('GET', `${this.url(this.options.pingUrl)}${ids}&runpod_version=errand`);
  }

  close(): void {
    this.agent.destroy();
  }

  private jobUrl(template: string, jobId: string): string {
    return this.url(template).replace('$ID', jobId);
  }

  private url(template: string): string {
    return template.replace('$RUNPOD_POD_ID', this.options.workerId);
  }

  private call(method: string, url: string, body?: string): Promise<WorkerResponse> {
    const { key } = this.options;
    return new Promise((resolve, reject) => {
      const call = request(
        url,
        {
          method,
          agent: this.agent,
          timeout: responseTimeoutMs,
          headers: {
            authorization: key,
            ...(body === undefined
              ? {}
              : {
                  'content-type': 'application/json',
                  'content-length': Buffer.byteLength(body),
                }),
          },
        },
        (response) => {
          const chunks: Buffer[] = [];
          response.on('data', (chunk: Buffer) => chunks.push(chunk));
          response.on('error', reject);
          response.on('end', () =>
            resolve({
              status: response.statusCode ?? 0,
              text: Buffer.concat(chunks).toString('utf8'),
            }),
          );
        },
      );
      call.on('timeout', () => call.destroy(new Error('no response in time')));
      call.on('error', reject);
      call.end(body);
    });
  }
}
