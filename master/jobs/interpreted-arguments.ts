import { findInterpretedText } from '#minion-protocol';
import { MasterError } from '../api/index.ts';
import type { BoundFunction } from './rule-call.ts';

/**
 * Rejects arguments that Salt would interpret instead of using them as text. Through them, a caller
 * could do more than the function permits. The check covers `pillar` for all functions, because
 * state files could interpret its values. For functions of `state`, it covers all arguments,
 * because Salt could replace their values with the result of a call.
 * @throws MasterError ERR_ARGS. The message contains the name of the argument but not its value
 */
export function requireInertArguments({ fun, arg, kwarg }: BoundFunction): void {
  const { pillar, ...others } = kwarg;
  refuse(['pillar'], pillar, 'pillar');
  if (!fun.startsWith('state.')) return;
  refuse(['arg'], arg, 'argument');
  refuse(['kwarg'], others, 'argument');
}

function refuse(
  place: readonly string[],
  value: unknown,
  destination: 'argument' | 'pillar',
): void {
  const found = findInterpretedText(value, destination);
  if (found === undefined) return;
  throw new MasterError('ERR_ARGS', `${[...place, ...found.path].join('.')} ${found.expected}`);
}
