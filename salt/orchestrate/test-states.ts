/** The `test` state, for testing requisites and showing messages [salt/states/test.py]. */

import type { WireMap } from '#minion-protocol';
import { isList } from '../render/pillar-data.ts';
import { textOf, toWire } from '../render/pillar-wire.ts';
import {
  isTrue,
  SlsError,
  type StateCall,
  type StateFunction,
  type StateTable,
  textGiven,
} from './state-function.ts';
import type { Outcome } from './state-result.ts';

/** Returns the simulated changes of a state such as `test.succeed_with_changes`. */
const pretended = (): WireMap => ({
  testing: { old: 'Unchanged', new: 'Something pretended to change' },
});

export function testStates(): StateTable {
  const succeeds: StateFunction = {
    takesMore: true,
    call: (call) => ({
      result: true,
      changes: {},
      comment: textGiven(call, 'comment') ?? 'Success!',
    }),
  };
  return new Map<string, StateFunction>([
    [
      'test.nop',
      { takesMore: true, call: () => ({ result: true, changes: {}, comment: 'Success!' }) },
    ],
    ['test.succeed_without_changes', succeeds],
    ['test.succeed_with_changes', { takesMore: true, call: succeedWithChanges }],
    ['test.fail_without_changes', { takesMore: true, call: failWithoutChanges }],
    ['test.fail_with_changes', { takesMore: true, call: failWithChanges }],
    ['test.show_notification', { takesMore: true, call: showNotification }],
    ['test.configurable_test_state', { optional: configured, call: configurableTestState }],
    ['test.mod_watch', { takesMore: true, call: watchFired }],
  ]);
}

function succeedWithChanges(call: StateCall): Outcome {
  return call.test
    ? outcomeOf(null, "If we weren't testing, this would be successful with changes")
    : outcomeOf(true, textGiven(call, 'comment') ?? 'Success!');
}

function failWithChanges(call: StateCall): Outcome {
  return call.test
    ? outcomeOf(null, "If we weren't testing, this would be failed with changes")
    : outcomeOf(false, textGiven(call, 'comment') ?? 'Failure!');
}

function failWithoutChanges(call: StateCall): Outcome {
  const comment = call.test
    ? "If we weren't testing, this would be a failure!"
    : (textGiven(call, 'comment') ?? 'Failure!');
  return { result: false, changes: {}, comment };
}

function outcomeOf(result: boolean | null, comment: string): Outcome {
  return { result, changes: pretended(), comment };
}

function showNotification({ given }: StateCall): Outcome {
  const text = given.get('text');
  if (text === undefined || !isTrue(text)) throw new SlsError('Missing required argument text.');
  return { result: true, changes: {}, comment: toWire(text) };
}

function watchFired(call: StateCall): Outcome {
  return {
    result: call.given.has('result') ? isTrue(call.given.get('result')) : true,
    changes: { 'Requisites with changes': [...call.changed] },
    comment: textGiven(call, 'comment') ?? 'Watch statement fired.',
  };
}

const configured = ['changes', 'result', 'comment', 'warnings', 'allow_test_mode_failure'];

function configurableTestState(call: StateCall): Outcome {
  const { given, test } = call;
  const changes = choice(call, 'changes') ? pretended() : {};
  const result = choice(call, 'result');
  const comment = textGiven(call, 'comment') ?? '';
  const warnings = warningsOf(call);
  const more = warnings.length === 0 ? {} : { more: { warnings } };
  if (!test) return { result, changes, comment, ...more };
  const mayFail = isTrue(given.get('allow_test_mode_failure')) && given.get('result') === false;
  const tested = given.get('changes') === false ? true : null;
  return {
    result: mayFail ? false : tested,
    changes,
    comment: comment === '' ? 'This is a test' : comment,
    ...more,
  };
}

function choice({ given }: StateCall, name: string): boolean {
  const value = given.get(name) ?? true;
  if (typeof value === 'boolean') return value;
  if (typeof value === 'string' && value.toLowerCase() === 'random') return Math.random() < 0.5;
  throw new SlsError(
    `You have specified the state option '${name}' with invalid arguments. It must be either True, False, or 'Random'`,
  );
}

function warningsOf({ given }: StateCall): string[] {
  const warnings = given.get('warnings') ?? [];
  if (typeof warnings === 'string') return [warnings];
  if (isList(warnings)) return warnings.map(textOf);
  throw new SlsError(
    "You have specified the state option 'warnings' with invalid arguments. It must be a string or a list of strings",
  );
}
