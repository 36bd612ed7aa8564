/** Traces with the OpenTelemetry SDK, which stores them in memory. */

import { SpanStatusCode, trace } from '@opentelemetry/api';
import {
  BasicTracerProvider,
  InMemorySpanExporter,
  SimpleSpanProcessor,
} from '@opentelemetry/sdk-trace-base';
import test from 'ava';
import { allow } from '#acl';
import type { CommandUpdate } from '#heat-bridge/commands/command-request.ts';
import { Traces } from '#heat-bridge/tracing.ts';
import { until } from '../helpers/deadline.ts';
import { always, recorderFor } from './signals/recorder.ts';
import { echo, grant, startBridge } from './stage.ts';

const exporter = new InMemorySpanExporter();

/** Registers a provider that stores spans in the exporter. Further calls have no effect. */
function registerProvider(): void {
  const spanProcessors = [new SimpleSpanProcessor(exporter)];
  trace.setGlobalTracerProvider(new BasicTracerProvider({ spanProcessors }));
}

test.serial('without a provider there are no traces', async (t) => {
  t.is(await Traces.open(), undefined);
});

test.serial(
  'a run is traced from the request to the signal that it causes, without its data',
  async (t) => {
    registerProvider();
    const service = await recorderFor(t, always(200, 'null'));
    const signals = allow('signals', {
      subject: { minion: '*' },
      action: 'signal',
      resource: { tag: 'heat/*' },
    });
    const { bridge, master } = await startBridge(t, {
      commands: [echo],
      ids: ['web1', 'web2'],
      rules: [grant, signals],
      config: { bridge: { handles: { endpoints: [service.origin], same_id_wait: 0 } } },
      functions: {
        'test.echo': async (_args, { fire, id, jid }) => {
          if (id === 'web1') await fire('heat/ready', { data: 'secret-1', __pub_jid: jid });
          return 'secret-2';
        },
      },
    });
    const signal = { endpoint: `${service.origin}/signal`, token: 'secret-3' };
    await bridge.handles.add({ alias: 'ready', globs: ['web*'], signal });
    const delivered = await master.events.subscribe({
      match: 'saltbridge/bridge/signal/delivered',
    });
    const run = await bridge.run('demo.echo', { target: 'web*', params: { text: 'secret-4' } });
    await run.outcome;
    for await (const _ of delivered) break;
    await until('the ends of all spans', () => exporter.getFinishedSpans().length >= 5);
    const spans = exporter.getFinishedSpans();
    const [root] = spans.filter(({ name }) => name === 'saltbridge.run');
    t.like(root?.attributes, {
      'saltbridge.run': run.id,
      'saltbridge.command': 'demo.echo',
      'saltbridge.minions': 2,
      'saltbridge.status': 'succeeded',
    });
    const inside = spans.filter(
      (it) => it.parentSpanContext?.spanId === root?.spanContext().spanId,
    );
    t.deepEqual(
      inside
        .map(({ name, attributes }) => `${name} ${attributes['saltbridge.minion'] ?? ''}`)
        .sort(),
      [
        'saltbridge.publish ',
        'saltbridge.return web1',
        'saltbridge.return web2',
        'saltbridge.signal web1',
      ],
    );
    t.is(spans.length, 5);
    t.true(spans.every(({ status }) => status.code === SpanStatusCode.UNSET));
    const told = spans.map(({ name, attributes, events }) => ({ name, attributes, events }));
    t.notRegex(JSON.stringify(told), /secret/);
  },
);

test.serial('many runs of one caller do not evict the traces of others', async (t) => {
  registerProvider();
  const traces = await Traces.open();
  if (traces === undefined) return t.fail('no provider');
  const follow = (owner: string, jid: string, minion: string): void => {
    const updates = async function* (): AsyncGenerator<CommandUpdate, void, void> {
      yield { type: 'published', jid, minions: [minion] };
    };
    traces.follow({ id: jid, command: 'demo.echo', minions: [minion], owner, updates });
  };
  follow('alice', 'own', 'web1');
  for (let number = 0; number < 10_001; number += 1) follow('greedy', `${number}`, 'web2');
  await new Promise(setImmediate);
  traces.signalAccepted('web1', 'of-own', 'own');
  for (let number = 0; number < 10_001; number += 1) {
    traces.signalAccepted('web2', `${number}`, '10000');
  }
  const over = { id: 'of-own', alias: 'ready', minion: 'web1', acceptedAt: 1 };
  traces.signalOver(over, undefined);
  const isOwn = (it: { readonly attributes: object }): boolean =>
    Object.values(it.attributes).includes('of-own');
  t.truthy(exporter.getFinishedSpans().find(isOwn)?.parentSpanContext);
});
