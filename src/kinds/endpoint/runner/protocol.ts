// The runner's side of the RunPod worker protocol over plain node:http. Small on purpose: its loading time is part of
// every cold start.
import { Agent, request } from 'node:http';

export interface ProtocolOptions {
  takeUrl: string;
  doneUrl: string;
  streamUrl: string;
  pingUrl: string;
  key: string;
  workerId: string;
}

export interface Answer {
  status: number;
  text: string;
}

const answerTimeoutMs = 90_000;

export class Protocol {
  private readonly options: ProtocolOptions;
  private readonly agent = new Agent({ keepAlive: true, maxSockets: 256 });

  constructor(options: ProtocolOptions) {
    this.options = options;
  }

  /** Beyond RunPod's protocol it names what it runs: what the server thinks it has and it has not goes back at once. */
  take(count: number, running: readonly string[]): Promise<Answer> {
    const base = this.url(this.options.takeUrl).replace('$ID', this.options.workerId);
    const state = `job_in_progress=${running.length > 0 ? 1 : 0}&running=${running.join(',')}`;
    const batch = base.replace('/job-take/', '/job-take-batch/');
    return this.call('GET', `${batch}&batch_size=${count}&${state}`);
  }

  stops(): Promise<Answer> {
    const base = this.url(this.options.takeUrl).replace('$ID', this.options.workerId);
    return this.call('GET', base.replace('/job-take/', '/job-stop/'));
  }

  done(jobId: string, body: string, isStream: boolean): Promise<Answer> {
    return this.call(
      'POST',
      `${this.jobUrl(this.options.doneUrl, jobId)}&isStream=${isStream}`,
      body,
    );
  }

  /** Beyond RunPod's protocol it says which chunk it is: one that is sent again is known. */
  chunk(jobId: string, n: number, body: string): Promise<Answer> {
    const url = `${this.jobUrl(this.options.streamUrl, jobId)}&isStream=false&n=${n}`;
    return this.call('POST', url, body);
  }

  ping(jobIds: readonly string[]): Promise<Answer> {
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

  private call(method: string, url: string, body?: string): Promise<Answer> {
    const { key } = this.options;
    return new Promise((resolve, reject) => {
      const call = request(
        url,
        {
          method,
          agent: this.agent,
          timeout: answerTimeoutMs,
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
      call.on('timeout', () => call.destroy(new Error('no answer in time')));
      call.on('error', reject);
      call.end(body);
    });
  }
}
