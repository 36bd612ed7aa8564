import {
  type CompiledTarget,
  compileLinearPattern,
  compileTarget,
  expandCompound,
  expandNodegroup,
  isTargetType,
  type Nodegroups,
  splitTargetWords,
  type TargetExpression,
} from '../../minion-protocol/index.ts';
import { MasterError, type TargetRequest } from '../api/index.ts';

/**
 * Takes a target from a caller, in the form in which it is published: nodegroups become compound
 * expressions, because minions do not know them [WIRE 12.1].
 * @throws MasterError ERR_BAD_TGT, ERR_NODEGROUP_UNKNOWN
 */
export function parseTarget(request: TargetRequest, nodegroups: Nodegroups): TargetExpression {
  const { tgt, tgtType } = request;
  const target = parseUnexpanded(request);
  if (tgtType === 'nodegroup') return parseNodegroup(textOf(tgt, tgtType), nodegroups);
  if (tgtType !== 'compound') return target;
  return { ...target, tgt: withoutNodegroups(tgt, nodegroups) };
}

/**
 * The same with nodegroups as they were named: what it refuses follows from the caller's words
 * alone.
 * @throws MasterError ERR_BAD_TGT
 */
export function parseUnexpanded(request: TargetRequest): TargetExpression {
  const { tgt, tgtType = 'glob', delimiter = ':' } = request;
  if (delimiter === '') throw badTarget('a delimiter is text of one character or more');
  switch (tgtType) {
    case 'nodegroup':
      return { tgtType: 'compound', tgt: [`N@${textOf(tgt, tgtType)}`] };
    case 'compound':
      return { tgtType, tgt, delimiter };
    case 'list':
      return { tgtType, tgt: [...new Set(typeof tgt === 'string' ? splitList(tgt) : tgt)] };
  }
  if (isTargetType(tgtType)) return { tgtType, tgt: textOf(tgt, tgtType), delimiter };
  throw badTarget(
    `tgt_type "${tgtType}" is not served; expected glob, pcre, list, grain, grain_pcre, pillar, ` +
      'pillar_exact, pillar_pcre, ipcidr, compound or nodegroup',
  );
}

/** What callers are told of a target that cannot be used. */
export function badTarget(reason: string, options?: ErrorOptions): MasterError {
  return new MasterError('ERR_BAD_TGT', reason, options);
}

/** Without trimming, and without empty names, as Salt does. */
function splitList(tgt: string): string[] {
  return tgt.split(',').filter((id) => id !== '');
}

function textOf(tgt: string | readonly string[], tgtType: string): string {
  if (typeof tgt === 'string') return tgt;
  throw badTarget(`a target of type ${tgtType} is text, not a list`);
}

function parseNodegroup(name: string, nodegroups: Nodegroups): TargetExpression {
  if (!Object.hasOwn(nodegroups, name)) {
    throw new MasterError('ERR_NODEGROUP_UNKNOWN', `nodegroup "${name}" is not defined`);
  }
  return { tgtType: 'compound', tgt: explained(() => expandNodegroup(name, nodegroups)) };
}

/**
 * An expression without nodegroups is published as it was written. One with a group that nobody
 * defined is left as it is, and means nobody.
 */
function withoutNodegroups(
  tgt: string | readonly string[],
  nodegroups: Nodegroups,
): string | readonly string[] {
  const words = splitTargetWords(tgt);
  const groups = words.filter((word) => word.startsWith('N@'));
  const isResolvable = groups.every((word) => Object.hasOwn(nodegroups, word.slice(2)));
  if (groups.length === 0 || !isResolvable) return tgt;
  return explained(() => expandCompound(words, nodegroups));
}

function explained<T>(work: () => T): T {
  try {
    return work();
  } catch (error) {
    if (error instanceof SyntaxError) throw badTarget(error.message, { cause: error });
    throw error;
  }
}

/** Reads a target that rights depend on: what is broken gives none. @throws SyntaxError */
export function compileRightTarget(request: TargetRequest, nodegroups: Nodegroups): CompiledTarget {
  const compiled = compileTarget(readRightTarget(request, nodegroups), compileLinearPattern);
  if (compiled.problem !== undefined) throw new SyntaxError(compiled.problem);
  return compiled;
}

function readRightTarget(request: TargetRequest, nodegroups: Nodegroups): TargetExpression {
  try {
    return parseTarget(request, nodegroups);
  } catch (error) {
    if (error instanceof MasterError) throw new SyntaxError(error.message, { cause: error });
    throw error;
  }
}
