/** Floats without a fraction stay floats on their way to minions and to services. */

import { writeFileSync } from 'node:fs';
import path from 'node:path';
import test from 'ava';
import { allow } from '#acl';
import { createBridge } from '#guests';
import { parseServerMetadata } from '#guests/deployments/metadata.ts';
import { parseExecutionPlan, readExecutionPlan } from '#guests/murano/execution-plan.ts';
import { answerBody, resultOfRun } from '#guests/run-result.ts';
import { wrapScript } from '#guests/script-wrapper.ts';
import type { CommandDefinition, PlanDefinition } from '#heat-bridge';
import { loadCatalog } from '#heat-bridge/catalog/load-catalog.ts';
import { decodeRecord, encodeRecord } from '#heat-bridge/signals/outbox-records.ts';
import { parseSignal } from '#heat-bridge/signals/signal.ts';
import { setDeploymentStatus } from '#heat-bridge/transports/heat-api-delivery.ts';
import { heatBody, jsonOf } from '#heat-bridge/transports/heat-requests.ts';
import type { WireMap } from '#minion-protocol';
import { StepScheduler } from '#runtime';
import { Float } from '#template/python/values.ts';
import { json, startApi } from '../helpers/salt-api.ts';
import { temporaryDirectory } from '../helpers/temporary-directory.ts';
import { acl, startBridge } from './stage.ts';

const tune: CommandDefinition = {
  name: 'demo.tune',
  description: 'Sets numbers.',
  function: 'demo.tune',
  reviewed: 'Only reads.',
  parameters: {
    type: 'object',
    properties: {
      load: { type: 'number', minimum: 0.5, maximum: 2 },
      port: { type: 'integer' },
      ports: { type: 'array', items: { type: 'integer' } },
      any: {},
    },
  },
  returns: { type: 'object', properties: { load: { type: 'number' } } },
};

const chain: PlanDefinition = {
  name: 'demo.chain',
  description: 'Passes a number on.',
  parameters: { type: 'object', properties: { load: { type: 'number' } } },
  groups: { all: { description: 'All.', max: 1 } },
  steps: {
    first: { command: 'demo.tune', group: 'all', params: { load: { parameter: 'load' } } },
    second: {
      command: 'demo.tune',
      group: 'all',
      params: { load: { step: 'first', path: '/load' } },
      needs: ['first'],
    },
  },
};

const body =
  '{"target": "web1", "params": {"load": 1.0, "port": 80.0, "ports": [1.0], "any": {"a": [2.0, 3]}}}';
const exact: WireMap = {
  load: new Float(1),
  port: 80,
  ports: [1],
  any: { a: [new Float(2), 3] },
};

test('a float in a request over HTTP reaches the minion as a float, and returns as one', async (t) => {
  const seen: WireMap[] = [];
  const bridge = createBridge({ commands: [tune], plans: [chain] });
  const { ask, login } = await startApi(t, {
    config: {
      acl: acl([
        allow('tune', {
          subject: { user: 'limited' },
          action: 'command',
          resource: { fun: 'demo.*', within: 'web*' },
        }),
      ]),
    },
    extensions: [bridge],
    options: { plugins: [bridge.http] },
    functions: {
      'demo.tune': ({ kwargs }) => {
        seen.push({ ...kwargs });
        return { load: kwargs.load ?? null };
      },
    },
  });
  const headers = json(await login('limited'));
  const post = (name: string, given: string) =>
    ask({ method: 'POST', path: `/bridge/v1/${name}/run`, headers, body: given });
  const command = await post('commands/demo.tune', body);
  t.deepEqual(seen, [exact]);
  t.true(command.text.includes('"return":{"load":1.0}'), command.text);
  const plan = await post(
    'plans/demo.chain',
    '{"groups": {"all": ["web1"]}, "params": {"load": 2.0}}',
  );
  t.true(plan.text.includes('"status":"succeeded"'), plan.text);
  t.deepEqual(seen.slice(1), [{ load: new Float(2) }, { load: new Float(2) }]);
  const refused = await post('commands/demo.tune', '{"target": "web1", "params": {"load": 3.0}}');
  t.is(refused.status, 400);
});

test('a float of a program reaches the minion as a float', async (t) => {
  const { bridge, seen } = await startBridge(t, {
    commands: [tune],
    functions: { 'demo.tune': () => ({ load: new Float(1) }) },
  });
  const params = { load: new Float(1), port: new Float(80), ports: [1], any: exact.any };
  const handle = await bridge.run('demo.tune', { target: 'web1', params });
  t.is((await handle.outcome).status, 'succeeded');
  t.deepEqual(seen[0]?.kwargs, exact);
});

test('floats in a catalog file stay floats, and numbers of its options may have a fraction', async (t) => {
  const file = path.join(temporaryDirectory(t), 'catalog.yaml');
  writeFileSync(
    file,
    `demo.tune:
  description: Sets numbers.
  function: demo.tune
  reviewed: Only reads.
  timeout: 30.0
  parameters:
    type: object
    properties: {load: {type: number, minimum: 1.0, default: 2.0}}
  arguments: {load: load, fixed: {value: [1.0, 1]}, inner: {map: {a: {value: 3.0}}}}
plans:
  demo.chain:
    description: Passes numbers on.
    groups: {all: {description: All.}}
    steps:
      one: {command: demo.tune, group: all, params: {load: {value: 4.0}}, undo: {command: demo.tune, params: {load: {value: 5.0}}}}
`,
  );
  const { definitions, plans, findings } = await loadCatalog([file], [], []);
  t.deepEqual(findings, []);
  t.is(definitions[0]?.timeoutSeconds, 30);
  t.deepEqual(definitions[0]?.arguments, {
    load: { parameter: 'load' },
    fixed: { value: [new Float(1), 1] },
    inner: { map: { a: { value: new Float(3) } } },
  });
  t.like(definitions[0]?.parameters, { properties: { load: { default: new Float(2) } } });
  t.like(plans[0]?.steps.one, {
    params: { load: { value: new Float(4) } },
    undo: { params: { load: { value: new Float(5) } } },
  });
});

test('a float in the data of a signal reaches Heat as a float', (t) => {
  const parsed = parseSignal({ data: { load: new Float(1), list: [new Float(-0), 2, 0.5] } }, 1000);
  if (!parsed.ok) return t.fail();
  const record = { id: 's1', alias: 'ready', sequence: 1, minion: 'm1', acceptedAt: 0 };
  const stored = encodeRecord({ ...record, signal: parsed.signal });
  const read = decodeRecord({ key: ['k'], value: stored });
  t.is(
    heatBody({ record: read, signalId: 'm1' }),
    '{"status":"SUCCESS","data":{"load":1.0,"list":[-0.0,2,0.5]},"id":"m1"}',
  );
});

/** Metadata of a server, as Heat sends it. */
const metadata = `{"deployments": [{"id": "d1", "group": "script", "config": "x", "inputs": [
  {"name": "deploy_signal_id", "value": "http://127.0.0.1:1/x"},
  {"name": "deploy_signal_transport", "value": "TEMP_URL_SIGNAL"},
  {"name": "text", "value": 1.0}, {"name": "number", "type": "Number", "value": 1.0},
  {"name": "typed", "type": "Number", "value": "2.0"}, {"name": "whole", "type": "Number", "value": 3},
  {"name": "json", "type": "Json", "value": {"a": 1.0}},
  {"name": "jsontext", "type": "Json", "value": "[1.0, 1]"}]}]}`;

test('a float in the inputs of a deployment reaches the script as a float', (t) => {
  const answer = { kind: 'answer', status: 200, body: metadata, headers: {} } as const;
  const read = jsonOf(answer, { maxBytes: 10_000 });
  if (!read.ok) return t.fail(read.reason);
  const parsed = parseServerMetadata(read.body);
  if (!parsed.ok) return t.fail(parsed.problem);
  const [deployment] = parsed.metadata.deployments;
  if (deployment === undefined || 'problem' in deployment) return t.fail();
  const { inputs } = deployment;
  t.deepEqual(
    { ...inputs },
    {
      text: '1.0',
      number: new Float(1),
      typed: new Float(2),
      whole: 3,
      json: { a: new Float(1) },
      jsontext: [new Float(1), 1],
    },
  );
  const script = wrapScript('x', { variables: inputs, outputs: [] });
  const shown = [...script.matchAll(/^(\w+)="\$\(printf %s (\S+)/gm)].map(
    ([, name, text = '']) => `${name} ${Buffer.from(text, 'base64')}`,
  );
  t.deepEqual(shown, [
    'text 1.0',
    'number 1.0',
    'typed 2.0',
    'whole 3',
    'json {"a":1.0}',
    'jsontext [1.0,1]',
  ]);
});

test('a float in the outputs of a deployment reaches Heat as a float', async (t) => {
  const result = { minion: 'm1', state: 'succeeded', retcode: 0 } as const;
  const outcome = {
    ...({ id: '1', command: 'demo.tune', status: 'succeeded', jids: ['1'] } as const),
    results: [{ ...result, return: { load: new Float(1), list: [new Float(2)] } }],
  };
  const made = resultOfRun(outcome, ['load', 'list', 'result'], undefined);
  const text = answerBody('d1', made, 'HEAT_SIGNAL');
  const exactOutputs = '"load":1.0,"list":[2.0],"result":{"load":1.0,"list":[2.0]}';
  t.true(text.includes(exactOutputs), text);
  const found = '{"software_deployments": [{"id": "s1", "config_id": "d1"}]}';
  const urls = { heat: 'http://127.0.0.1:1/v1/p', zaqar: undefined };
  const sent: (string | undefined)[] = [];
  const outcomeOfStatus = await setDeploymentStatus({
    ...{ destination: undefined, id: 'd1', serverId: 's', body: text },
    ask: async () => t.fail() as never,
    signalHandle: async () => t.fail() as never,
    askAsOwner: async (request) => {
      sent.push(request(urls)?.body);
      return { kind: 'answer', status: 200, body: found, headers: {} };
    },
  });
  t.is(outcomeOfStatus.kind, 'delivered');
  t.true(sent[1]?.includes(exactOutputs), sent[1]);
});

test('a float in the parameters of an execution plan of Murano stays a float', async (t) => {
  const text =
    '{"FormatVersion": "2.0.0", "ID": "p1", "Stamp": 1, "Body": "return a(args)", "Parameters": {"load": 1.0}, "Files": {"a.sh": {"Name": "a.sh", "BodyType": "Text", "Body": "x"}}, "Scripts": {"a": {"Type": "Application", "EntryPoint": "a.sh", "Files": [], "Options": {}}}}';
  const read = await new StepScheduler().run(readExecutionPlan(text, undefined));
  if (read === undefined) return t.fail();
  const plan = parseExecutionPlan(read.id, read.given);
  t.deepEqual(plan.parameters, { load: new Float(1) });
  t.is(plan.stamp, 1);
});
