/**
 * Values that JavaScript cannot convert to text or to a number, such as a map from the wire, where a
 * minion or a guest should send a text or a number.
 */
import test from 'ava';
import { redactReturn } from '#guests/data-spaces/secret-returns.ts';
import { parseServerMetadata } from '#guests/deployments/metadata.ts';
import { parseExecutionPlan } from '#guests/murano/execution-plan.ts';
import { resultOfRun } from '#guests/run-result.ts';
import { reportOfStates } from '#heat-bridge/commands/states/state-run.ts';
import { emptyWireMap, type WireValue } from '#minion-protocol';

/** Maps without a method `toString`, as the wire and JSON may contain them. */
const odd: readonly WireValue[] = [
  emptyWireMap(),
  [emptyWireMap()],
  JSON.parse('{"toString": 1, "valueOf": 1}'),
];

test('a return of states may contain any value where a text belongs', (t) => {
  for (const value of odd) {
    t.false(reportOfStates([value], { one: 'one' }).isSuccess);
    const state = { __id__: 'one', result: false, comment: value };
    const { stderr } = reportOfStates({ 'a_|-one_|-one_|-run': state }, { one: 'one' });
    t.is(stderr, `one: ${JSON.stringify(value)}`);
  }
  t.is(reportOfStates(['an error', 'another'], {}).stderr, 'an error\nanother');
});

test('the exit code of a command may be any value', (t) => {
  for (const retcode of odd) {
    const result = { minion: 'm1', state: 'failed', retcode, reason: 'it failed' } as const;
    const outcome = {
      ...({ id: '1', command: 'demo.echo', status: 'failed', jids: ['1'] } as const),
      results: [{ ...result, return: { stdout: '', stderr: '', retcode } as WireValue }],
    };
    t.is(resultOfRun(outcome, [], undefined).statusCode, 1);
  }
});

test('a return with an odd exit code has its secrets removed', (t) => {
  const roles = { db: { writes: { password: { secret: true } } } };
  const membershipOf = () => ({ role: 'db', space: { roles } }) as never;
  for (const retcode of [...odd.slice(0, 1), { a: 0 }, '0x', '0', null, 0]) {
    const load = {
      ...{ id: 'db', jid: 'req', fun: 'saltbridge_data.get', fun_args: ['db/password'] },
      ...{ return: 'x', retcode },
    };
    const { return: left } = redactReturn({ membershipOf }, 'db', load);
    t.is(left, retcode === '0x' ? 'x' : '(secret)');
  }
});

test('the format version of an execution plan may be any value', (t) => {
  for (const FormatVersion of [...odd, null]) {
    t.throws(() => parseExecutionPlan('one', { FormatVersion }), {
      message: /^Unsupported format version /,
    });
  }
});

test('an input of the type Boolean is true, false or rejected', (t) => {
  const problemOf = (value: unknown): unknown => {
    const inputs = [
      { name: 'deploy_signal_transport', value: 'NO_SIGNAL' },
      { name: 'flag', type: 'Boolean', value },
    ];
    const deployment = { id: '1', name: 'one', group: 'script', config: 'x', inputs };
    const parsed = parseServerMetadata({ deployments: [deployment] });
    return parsed.ok && parsed.metadata.deployments[0];
  };
  t.like(problemOf('TRUE'), { inputs: { flag: true } });
  t.like(problemOf(false), { inputs: { flag: false } });
  for (const value of ['constructor', '__proto__', ...odd]) {
    t.regex(JSON.stringify(problemOf(value)), /"problem":"[^"]*flag/);
  }
});
