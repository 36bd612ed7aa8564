/** Signals to a real Heat through every kind of handle. */
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import test, { type ExecutionContext } from 'ava';
import { openTestSignals, type SignalsUnderTest } from '../heat-bridge/signals/open-signals.ts';
import { testWhere } from '../helpers/needs.ts';
import { eventually } from './eventually.ts';
import { type HandleKind, heatTest, Stack, services } from './heat-cloud.ts';
import { startHeatProxy } from './heat-proxy.ts';
import { TemplateStack } from './heat-stack.ts';

test.beforeEach((t) => t.timeout(180_000));

const kinds: readonly (readonly [HandleKind, 'swift' | 'zaqar' | undefined])[] = [
  ['TOKEN_SIGNAL', undefined],
  ['HEAT_SIGNAL', undefined],
  ['CFN_SIGNAL', undefined],
  ['AWS', undefined],
  ['ZAQAR_SIGNAL', 'zaqar'],
  ['TEMP_URL_SIGNAL', 'swift'],
];
const minions = ['m1', 'm2', 'm3'];

/** Creates a stack with a handle `ready`. */
async function open(
  t: ExecutionContext,
  kind: HandleKind,
  count: number,
): Promise<{ readonly stack: Stack; readonly signals: SignalsUnderTest }> {
  const stack = await Stack.create(kind, count);
  const signals = await openTestSignals(t, services(), {
    // In a small cloud with 26 stacks, the engine stores a signal seconds after its response.
    section: { retry_initial_delay: 0.5, retry_max_delay: 2, same_id_wait: 10 },
  });
  await signals.handles.add({ alias: 'ready', minions, signal: await stack.handle() });
  return { stack, signals };
}

for (const [kind, service] of kinds) {
  heatTest(
    `${kind}: three minions complete a condition of three, and one of them alone does not`,
    async (t) => {
      const { stack, signals } = await open(t, kind, 3);
      for (const data of ['1', '2', '3']) await signals.signal('m1', 'heat/ready', { data });
      await signals.signal('m2', 'heat/ready', { data: 'two' });
      await signals.told('signal/delivered', 4);
      // Heat checks once per second. If the signals had counted as four, it would have noticed.
      await sleep(3_000);
      t.is((await stack.status()).status, 'CREATE_IN_PROGRESS');
      await signals.signal('m3', 'heat/ready', { data: 'three' });
      const { status, reason } = await stack.end();
      t.is(status, 'CREATE_COMPLETE', reason);
      t.deepEqual(await stack.data(), { m1: '3', m2: 'two', m3: 'three' });
      await stack.delete();
    },
    service,
  );

  heatTest(
    `${kind}: a failure fails the stack with its reason`,
    async (t) => {
      const { stack, signals } = await open(t, kind, 3);
      await signals.signal('m1', 'heat/ready', { status: 'FAILURE', reason: 'disk full on m1' });
      const { status, reason } = await stack.end();
      t.is(status, 'CREATE_FAILED');
      t.true(reason.includes('disk full on m1'), reason);
      await stack.delete();
    },
    service,
  );

  heatTest(
    `${kind}: 60 kB of data with other letters are an output of the stack`,
    async (t) => {
      const { stack, signals } = await open(t, kind, 1);
      const data = { text: 'Grüße, 世界 '.repeat(4_000), list: [1, null, { deep: true }] };
      t.true(Buffer.byteLength(JSON.stringify(data)) > 60_000);
      await signals.signal('m1', 'heat/ready', { data });
      const { status, reason } = await stack.end();
      t.is(status, 'CREATE_COMPLETE', reason);
      const { m1 } = await stack.data();
      t.deepEqual(kind === 'AWS' ? JSON.parse(String(m1)) : m1, data);
      await stack.delete();
    },
    service,
  );

  heatTest(
    `${kind}: signals for a deleted stack end in the dead-letter list`,
    async (t) => {
      const { stack, signals } = await open(t, kind, 3);
      await stack.delete();
      await signals.signal('m1', 'heat/ready');
      await signals.told('signal/failed');
      const [entry] = await signals.outbox.list();
      t.is(entry?.state, 'dead');
      t.regex(entry?.reason ?? '', /answered (401|403|404): \w/);
      t.is(entry?.failures, 0);
    },
    service,
  );
}

heatTest(
  'a signal with a wrong token is put into the dead-letter list after one request',
  async (t) => {
    const stack = await Stack.create('TOKEN_SIGNAL', 1);
    const { endpoint } = (await stack.handle()) as { endpoint: string };
    const proxy = await startHeatProxy(new URL(endpoint).origin);
    t.teardown(() => proxy.close());
    const signals = await openTestSignals(t, [...services(), proxy.origin]);
    const signal = {
      endpoint: endpoint.replace(new URL(endpoint).origin, proxy.origin),
      token: 'gAAAAwrong',
    };
    await signals.handles.add({ alias: 'ready', minions, signal });
    await signals.signal('m1', 'heat/ready');
    const [failed] = await signals.told('signal/failed');
    t.regex(String(failed?.data.reason), /^answered 401: \w/);
    t.is(proxy.count, 1);
    await stack.delete();
  },
);

heatTest('a response lost after Heat stored the signal causes no duplicate', async (t) => {
  const stack = await Stack.create('TOKEN_SIGNAL', 2);
  const { endpoint, token } = (await stack.handle()) as { endpoint: string; token: string };
  const proxy = await startHeatProxy(new URL(endpoint).origin, 2);
  t.teardown(() => proxy.close());
  const signals = await openTestSignals(t, [...services(), proxy.origin]);
  const signal = { endpoint: endpoint.replace(new URL(endpoint).origin, proxy.origin), token };
  await signals.handles.add({ alias: 'ready', minions, signal });
  await signals.signal('m1', 'heat/ready');
  await signals.told('signal/delivered');
  t.is(proxy.count, 3);
  t.deepEqual(await stack.stored(), ['m1']);
  t.is((await stack.status()).status, 'CREATE_IN_PROGRESS');
  await stack.delete();
});

const { HEAT_START: starter, HEAT_ENV: environment = '' } = process.env;
const outage = testWhere(starter !== undefined, 'HEAT_ENV and HEAT_START', test.serial);

outage('an outage of heat-api of 20 s loses no signal', async (t) => {
  const directory = path.dirname(environment);
  const { stack, signals } = await open(t, 'HEAT_SIGNAL', 3);
  const pid = Number.parseInt(
    readFileSync(path.join(directory, 'run', 'heat-api.pid'), 'utf8'),
    10,
  );
  process.kill(pid, 'SIGTERM');
  const away = sleep(20_000);
  for (const minion of minions) await signals.signal(minion, 'heat/ready', { data: minion });
  await away;
  await promisify(execFile)(starter ?? '', [directory]);
  const { status, reason } = await stack.end();
  t.is(status, 'CREATE_COMPLETE', reason);
  t.deepEqual(await stack.data(), { m1: 'm1', m2: 'm2', m3: 'm3' });
  await stack.delete();
});

const swiftTemplate = {
  heat_template_version: '2018-08-31',
  resources: {
    handle: { type: 'OS::Heat::SwiftSignalHandle' },
    condition: {
      type: 'OS::Heat::SwiftSignal',
      properties: { handle: { get_resource: 'handle' }, timeout: 60, count: 2 },
    },
  },
  outputs: {
    endpoint: { value: { get_attr: ['handle', 'endpoint'] } },
    curl_cli: { value: { get_attr: ['handle', 'curl_cli'] } },
    reference: { value: { get_resource: 'handle' } },
    data: { value: { get_attr: ['condition', 'data'] } },
  },
};

/** Waits until an output of a stack contains an address. */
async function outputOf(stack: TemplateStack, key: string): Promise<string> {
  let value = '';
  await eventually(
    `the output ${key}`,
    async () => {
      value = String((await stack.state()).outputs.get(key));
      return value.includes('http');
    },
    60_000,
    500,
  );
  return value;
}

for (const [what, key, isWrapped] of [
  ['endpoint', 'endpoint', false],
  ['curl_cli', 'curl_cli', false],
  ['reference', 'reference', false],
  ['address as alarm_url', 'endpoint', true],
] as const) {
  heatTest(
    `two minions complete a SwiftSignal by its ${what}`,
    async (t) => {
      const stack = await TemplateStack.create(swiftTemplate);
      const given = await outputOf(stack, key);
      const signals = await openTestSignals(t, services());
      const signal = isWrapped ? { alarm_url: given } : given;
      await signals.handles.add({ alias: 'ready', minions, signal });
      for (const minion of ['m1', 'm2']) {
        await signals.signal(minion, 'heat/ready', { data: `of ${minion}` });
      }
      const { status, reason, outputs } = await stack.end('CREATE');
      t.is(status, 'CREATE_COMPLETE', reason);
      t.deepEqual(JSON.parse(String(outputs.get('data'))), { m1: 'of m1', m2: 'of m2' });
      await stack.delete();
    },
    'swift',
  );
}

heatTest('a minion signals a scaling policy by its alarm_url', async (t) => {
  const stack = await TemplateStack.create({
    heat_template_version: '2018-08-31',
    resources: {
      group: {
        type: 'OS::Heat::AutoScalingGroup',
        properties: { min_size: 1, max_size: 3, resource: { type: 'OS::Heat::RandomString' } },
      },
      policy: {
        type: 'OS::Heat::ScalingPolicy',
        properties: {
          auto_scaling_group_id: { get_resource: 'group' },
          adjustment_type: 'change_in_capacity',
          scaling_adjustment: 1,
        },
      },
    },
    outputs: {
      alarm_url: { value: { get_attr: ['policy', 'alarm_url'] } },
      size: { value: { get_attr: ['group', 'current_size'] } },
    },
  });
  t.is((await stack.end('CREATE')).status, 'CREATE_COMPLETE');
  const signals = await openTestSignals(t, services());
  const signal = await outputOf(stack, 'alarm_url');
  await signals.handles.add({ alias: 'scale', minions, signal });
  await signals.signal('m1', 'heat/scale', { reason: 'load' });
  await signals.told('signal/delivered');
  // The signal was delivered, because heat-api-cfn has verified its signature. The cloud has no
  // user who may scale.
  await signals.signal('m1', 'heat/scale', null);
  t.regex(
    String((await signals.told('signal/failed'))[0]?.data.reason),
    /not sent: .*FAILURE would scale too/,
  );
  await stack.delete();
});

heatTest(
  'an event without data fails the stack, or completes it if its handle permits that',
  async (t) => {
    const { stack, signals } = await open(t, 'HEAT_SIGNAL', 1);
    await signals.signal('m1', 'heat/ready', {});
    const { status, reason } = await stack.end();
    t.is(status, 'CREATE_FAILED');
    t.true(
      reason.includes('event heat/ready is not a valid signal: the event has no data'),
      reason,
    );
    await stack.delete();
    const other = await Stack.create('HEAT_SIGNAL', 1);
    const signal = await other.handle();
    await signals.handles.add({ alias: 'other', minions, signal, emptyIsSuccess: true });
    await signals.signal('m1', 'heat/other', {});
    t.is((await other.end()).status, 'CREATE_COMPLETE');
    await other.delete();
  },
);
