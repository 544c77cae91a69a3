// Which destinations egress allows: addresses in every spelling, and redirects, against real servers on loopback.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { AppError } from '../../../src/errors.ts';
import { addressRefusal } from '../../../src/runtime/egress/address.ts';
import { Policy } from '../../../src/runtime/egress/policy.ts';
import { code, egressWith, echoSite, type Echo } from './kit.ts';

const { port, base, hits } = await echoSite();
const open = egressWith([`127.0.0.1:${port}`]);
const closed = egressWith([]);

describe('addresses', () => {
  it('recognizes every spelling of a non-public address', () => {
    const refused = [
      '127.0.0.1', '127.8.8.8', '0.0.0.0', '0.1.2.3', '10.0.0.1', '172.16.0.1', '192.168.1.1',
      '169.254.169.254', '100.64.0.1', '100.100.100.200', '168.63.129.16', '192.0.0.192',
      '192.0.2.1', '198.18.0.1', '198.51.100.1', '203.0.113.1', '192.88.99.1', '224.0.0.1',
      '240.0.0.1', '255.255.255.255', '::', '::1', '::127.0.0.1', '::ffff:10.0.0.1',
      '::ffff:7f00:1', '::ffff:0:127.0.0.1', '64:ff9b::10.0.0.1', '64:ff9b::a9fe:a9fe',
      '64:ff9b:1::8.8.8.8', '2002:7f00:1::', '2002:808:808::', '2001::1', 'fe80::1', 'fe80::1%eth0',
      'fec0::1', 'fc00::1', 'fd00:ec2::254', 'ff02::1', '100::1', '2001:db8::1', '3fff::1',
      '4000::1', '2607:f8b0::200:5efe:7f00:1', 'nonsense', '',
    ]; // oxfmt-ignore
    for (const address of refused) assert.ok(addressRefusal(address), address);
    const open = ['8.8.8.8', '1.1.1.1', '2606:4700::1111', '::ffff:8.8.8.8', '64:ff9b::8.8.8.8'];
    for (const address of open) assert.equal(addressRefusal(address), undefined, address);
  });

  it('refuses private destinations in every form and names the setting', async () => {
    const hosts = [
      '127.0.0.1', '2130706433', '0x7f000001', '0x7f.1', '017700000001', '127.1', '127.0.0.1.',
      '①②⑦.0.0.1', '[::1]', '[::ffff:127.0.0.1]', '[::ffff:7f00:1]', '[64:ff9b::7f00:1]',
      '[2002:7f00:1::]', '0', '[::]', 'localhost', '169.254.169.254', '10.0.0.1',
    ]; // oxfmt-ignore
    for (const host of hosts) {
      await assert.rejects(
        closed.request({ url: `http://${host}:${port}/`, trust: 'guarded' }),
        (error: unknown) => {
          code('egressRefused')(error);
          assert.match(String((error as AppError).hint), /egress\.allow/);
          return true;
        },
        host,
      );
    }
    assert.deepEqual(hits, []);
    await assert.rejects(closed.request({ url: 'file:///etc/passwd', trust: 'trusted' }), {
      code: 'egressRefused',
    });
    await assert.rejects(closed.request({ url: 'nonsense', trust: 'guarded' }), {
      code: 'invalidInput',
    });
  });

  it('names the entry that would allow a refused destination, in every form', () => {
    const strict = new Policy({ allow: [] });
    for (const [host, address] of [
      ['::1', '::1'],
      ['::ffff:7f00:1', '::ffff:7f00:1'],
      ['10.0.0.1', '10.0.0.1'],
      ['wiki.local', 'fd00::1'],
    ] as const) {
      let entry = '';
      assert.throws(
        () => strict.check(host, 30_000, address),
        (error: AppError) => ((entry = /"(.+?)"/.exec(error.hint!)![1]!), true),
      );
      new Policy({ allow: [entry] }).check(host, 30_000, address);
      assert.throws(() => new Policy({ allow: [entry] }).check(host, 30_001, address), entry);
    }
  });

  it('allows what the operator named: by trust, host, port, address or range', async () => {
    const trusted = await closed.request({ url: `${base}/a`, trust: 'trusted' });
    assert.equal(trusted.status, 200);
    assert.equal(trusted.remoteAddress, '127.0.0.1');
    trusted.body.discard();
    // A connection opened for a trusted request must not serve a guarded request to the same host.
    await assert.rejects(closed.request({ url: `${base}/a`, trust: 'guarded' }), {
      code: 'egressRefused',
    });
    const policy = new Policy({
      allow: [
        'wiki.local',
        '*.corp.example',
        'localhost:3000',
        '[::1]:80',
        '10.0.0.0/8',
        'fd00::/8',
      ],
    });
    const check = (host: string, p: number, address: string) => policy.check(host, p, address);
    check('wiki.local', 1, '192.168.0.1');
    check('WIKI.local.', 1, '192.168.0.1');
    check('a.b.corp.example', 1, '127.0.0.1');
    check('localhost', 3000, '127.0.0.1');
    check('anything', 80, '::1');
    check('x', 1, '10.200.0.1');
    check('x', 1, '::ffff:10.200.0.1');
    check('x', 1, 'fd12::1');
    check('x', 1, '8.8.8.8');
    assert.throws(() => check('localhost', 3001, '127.0.0.1'), code('egressRefused'));
    assert.throws(() => check('corp.example', 1, '127.0.0.1'), code('egressRefused'));
    assert.throws(() => check('x', 1, '11.0.0.1') ?? check('x', 1, '192.168.0.1'));
    assert.throws(() => new Policy({ allow: ['http://x/'] }), code('invalidInput'));
  });

  it('refuses in advance what DNS cannot make reachable', () => {
    const egress = egressWith(['localhost:3000', '10.1.0.0/16']);
    for (const url of ['https://example.com/', 'http://localhost:3000/', 'http://10.1.2.3/'])
      egress.check(url);
    const refused = [
      'http://localhost/',
      'http://a.localhost:1/',
      'https://[::1]/',
      'http://10.2.0.1/',
    ];
    for (const url of refused) assert.throws(() => egress.check(url), code('egressRefused'), url);
  });

  it('connects to the checked address even when DNS changes', async () => {
    let lookups = 0;
    // Nothing listens at the first address, which is allowed. The second would reach the server but is not allowed.
    const addresses = ['127.0.0.2', '127.0.0.1'];
    const rebinding = egressWith([`127.0.0.2:${port}`], {
      limits: { connectTimeoutMs: 2000 },
      resolve: (_, done) => {
        const address = addresses[Math.min(lookups++, addresses.length - 1)]!;
        done(null, [{ address, family: 4 }]);
      },
    });
    const before = hits.length;
    const get = () => rebinding.request({ url: `http://evil.example:${port}/`, trust: 'guarded' });
    await assert.rejects(get(), (error: AppError) => error.code !== 'egressRefused');
    assert.equal(lookups, 1);
    await assert.rejects(get(), { code: 'egressRefused' });
    assert.equal(hits.length, before);
  });

  it('uses only the allowed addresses of several', async () => {
    const mixed = egressWith([`127.0.0.1:${port}`], {
      resolve: (_, done) =>
        done(null, [
          { address: '169.254.169.254', family: 4 },
          { address: '127.0.0.1', family: 4 },
        ]),
    });
    const url = `http://mixed.example:${port}/x`;
    const result = await mixed.request({ url, trust: 'guarded' });
    assert.equal(result.remoteAddress, '127.0.0.1');
    assert.equal(((await result.body.json()) as Echo).headers.host, `mixed.example:${port}`);
  });

  it('opens plain connections under the same rules', async () => {
    await assert.rejects(closed.connect({ host: '127.0.0.1', port, trust: 'guarded' }), {
      code: 'egressRefused',
    });
    const socket = await closed.connect({ host: '127.0.0.1', port, trust: 'trusted' });
    socket.destroy();
    await assert.rejects(closed.connect({ host: '127.0.0.1', port: 1, trust: 'trusted' }), {
      code: 'egressFailed',
    });
  });
});

describe('redirects', () => {
  const go = (to: string, status = 302) => `${base}/?status=${status}&to=${encodeURIComponent(to)}`;

  it('follows, lists and checks each of them', async () => {
    const result = await open.request({ url: go(go('/end')), trust: 'guarded' });
    assert.equal(result.url, `${base}/end`);
    assert.deepEqual(
      result.redirects.map(({ status }) => status),
      [302, 302],
    );
    assert.equal(((await result.body.json()) as Echo).path, '/end');
    for (const to of [
      'http://169.254.169.254/latest',
      'http://[::1]/',
      'http://0x7f.1:1/',
      'file:///etc/passwd',
    ])
      await assert.rejects(open.request({ url: go(to), trust: 'guarded' }), {
        code: 'egressRefused',
      });
  });

  it('trusts a trusted server only for its own origin', async () => {
    const same = await closed.request({ url: go('/end'), trust: 'trusted' });
    assert.equal(same.url, `${base}/end`);
    same.body.discard();
    const other = `http://localhost:${port}/end`;
    await assert.rejects(closed.request({ url: go(other), trust: 'trusted' }), {
      code: 'egressRefused',
    });
  });

  it('limits their number and follows none for lookups', async () => {
    const before = hits.length;
    await assert.rejects(open.request({ url: `${base}/loop`, trust: 'guarded', redirects: 3 }), {
      code: 'egressFailed',
    });
    assert.equal(hits.length - before, 4);
    const plain = await open.request({ url: go('/end'), trust: 'guarded', redirects: 0 });
    assert.equal(plain.status, 302);
    assert.equal(await plain.body.text(), 'moved');
  });

  it('keeps or changes the method like browsers and drops secrets at another origin', async () => {
    const send = async (status: number, body: string | AsyncIterable<Buffer> = 'data') => {
      const request = { url: go('/end', status), method: 'post', body, trust: 'guarded' as const };
      return (await (await open.request(request)).body.json()) as Echo;
    };
    assert.deepEqual(await send(302).then(({ method, body }) => [method, body]), ['GET', '']);
    assert.deepEqual(await send(303).then(({ method, body }) => [method, body]), ['GET', '']);
    assert.deepEqual(await send(307).then(({ method, body }) => [method, body]), ['POST', 'data']);
    const stream = (async function* () {
      yield Buffer.from('x');
    })();
    await assert.rejects(send(308, stream), { code: 'egressFailed' });
    const both = egressWith([`127.0.0.1:${port}`, `localhost:${port}`]);
    const headers = { Authorization: 'Bearer s', 'X-Api-Key': 'k', 'X-Plain': 'p', host: 'evil' };
    const across = await both.request({
      url: go(`http://localhost:${port}/end`),
      headers,
      trust: 'guarded',
    });
    const seen = ((await across.body.json()) as Echo).headers;
    assert.deepEqual(
      [seen.authorization, seen['x-api-key'], seen['x-plain'], seen.host],
      [undefined, undefined, 'p', `localhost:${port}`],
    );
    const within = await both.request({ url: go('/end'), headers, trust: 'guarded' });
    assert.equal(((await within.body.json()) as Echo).headers.authorization, 'Bearer s');
    const named = base.replace('//', '//user:p%40ss@');
    const basic = await both.request({ url: `${named}/end`, trust: 'guarded' });
    const { authorization } = ((await basic.body.json()) as Echo).headers;
    assert.equal(authorization, `Basic ${btoa('user:p@ss')}`);
    assert.ok(!basic.url.includes('user'));
  });
});
