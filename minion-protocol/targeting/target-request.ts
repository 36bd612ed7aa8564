/** Converts the targets of callers to the form in which they are published. */

import { splitTargetWords } from './compound.ts';
import { expandCompound, expandNodegroup, type Nodegroups } from './nodegroups.ts';
import { compileLinearPattern } from './pattern.ts';
import {
  type CompiledTarget,
  compileTarget,
  isTargetType,
  type TargetExpression,
} from './target.ts';
import { requireTargetSize } from './target-size.ts';
import { targetTypeProblem } from './target-types.ts';

/** A target as a caller writes it. `TargetRequest` in `master/api` describes the members. */
interface WrittenTarget {
  readonly tgt: string | readonly string[];
  readonly tgtType?: string;
  readonly delimiter?: string;
}

/**
 * Returns the target in the form in which it is published. Nodegroups are replaced by compound
 * expressions, because minions do not have their definitions [WIRE 12.1].
 * @throws SyntaxError if the target is invalid, its type is not supported, or its nodegroup is not
 * defined
 */
export function expandTargetRequest(
  request: WrittenTarget,
  nodegroups: Nodegroups,
): TargetExpression {
  const { tgt, tgtType } = request;
  const target = readTargetRequest(request);
  if (tgtType === 'nodegroup') return expandGroup(textOf(tgt, tgtType), nodegroups);
  if (tgtType !== 'compound') return target;
  return { ...target, tgt: withoutNodegroups(tgt, nodegroups) };
}

/**
 * Returns the target expression without expanding nodegroups. Its errors therefore reveal nothing
 * about the definitions of nodegroups.
 * @throws SyntaxError if the target is invalid or its type is not supported
 */
export function readTargetRequest(request: WrittenTarget): TargetExpression {
  const { tgt, tgtType = 'glob', delimiter = ':' } = request;
  if (delimiter === '') throw new SyntaxError('the delimiter of the target must not be empty');
  requireTargetSize(tgt, tgtType);
  switch (tgtType) {
    case 'nodegroup':
      return { tgtType: 'compound', tgt: [`N@${textOf(tgt, tgtType)}`] };
    case 'compound':
      return { tgtType, tgt, delimiter };
    case 'list':
      return { tgtType, tgt: [...new Set(typeof tgt === 'string' ? splitList(tgt) : tgt)] };
  }
  if (isTargetType(tgtType)) return { tgtType, tgt: textOf(tgt, tgtType), delimiter };
  throw new SyntaxError(targetTypeProblem(tgtType));
}

/**
 * Compiles the target of an access rule.
 * @throws SyntaxError if the target is invalid. Salt accepts some invalid targets, which then match
 * no minion; this function rejects these, too
 */
export function compileRightTarget(request: WrittenTarget, nodegroups: Nodegroups): CompiledTarget {
  const compiled = compileTarget(expandTargetRequest(request, nodegroups), compileLinearPattern);
  if (compiled.problem !== undefined) throw new SyntaxError(compiled.problem);
  return compiled;
}

/** Splits a list at commas. As in Salt, names are not trimmed and empty names are removed. */
function splitList(tgt: string): string[] {
  return tgt.split(',').filter((id) => id !== '');
}

function textOf(tgt: string | readonly string[], tgtType: string): string {
  if (typeof tgt === 'string') return tgt;
  throw new SyntaxError(`a target of type ${tgtType} must be text, not a list`);
}

function expandGroup(name: string, nodegroups: Nodegroups): TargetExpression {
  if (!Object.hasOwn(nodegroups, name)) {
    throw new SyntaxError(`nodegroup "${name}" is not defined`);
  }
  return { tgtType: 'compound', tgt: expandNodegroup(name, nodegroups) };
}

/**
 * Expands the nodegroups of a compound expression. An expression without nodegroups is returned
 * unchanged. An expression with an undefined group is also returned unchanged, and matches no
 * minion.
 */
function withoutNodegroups(
  tgt: string | readonly string[],
  nodegroups: Nodegroups,
): string | readonly string[] {
  const words = splitTargetWords(tgt);
  const groups = words.filter((word) => word.startsWith('N@'));
  const isResolvable = groups.every((word) => Object.hasOwn(nodegroups, word.slice(2)));
  return groups.length === 0 || !isResolvable ? tgt : expandCompound(words, nodegroups);
}
