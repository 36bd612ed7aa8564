/** Decisions as they are recorded: what was asked, so that another policy can be asked the same. */
import type { Call, Decision, RuleAction } from '../../acl/index.ts';
import { questionText } from '../../acl/index.ts';
import type { WireValue } from '../../minion-protocol/index.ts';
import type { MinionQuestion } from '../policy/gate.ts';
import { shapeOf, withoutValues } from './shape.ts';

/** What a minion asked for, as often as it did. Data and arguments are kept by their shapes. */
export interface RecordedDecision {
  readonly minion: string;
  readonly action: RuleAction;
  /** Tag, path or operation; of a job its functions. */
  readonly texts: readonly string[];
  /** Whose mine it was. */
  readonly owner?: string;
  /** Whom a job was for. */
  readonly minions?: readonly string[];
  /** One for each shape that was seen: what was said with a signal, or the calls of a job. */
  readonly samples: readonly WireValue[];
  /** Whether `samples` has every shape. */
  readonly isWhole: boolean;
  /** Largest one, bytes; 0 where it has no meaning. */
  readonly bytes: number;
  /** What the policy said, whether or not it was learning. */
  readonly effect: Decision['effect'];
  readonly rule: string;
  /** Milliseconds since 1970. */
  readonly firstAt: number;
  readonly lastAt: number;
  readonly count: number;
}

/** What a record is known by. */
export type DecisionSubject = Pick<
  RecordedDecision,
  'action' | 'effect' | 'minion' | 'minions' | 'owner' | 'rule' | 'texts'
>;

/** A part of a question that differs from time to time. */
export interface Sample {
  /** `undefined`: it has no form that can be kept. */
  readonly shape: string | undefined;
  readonly value: () => WireValue;
}

/** Bytes of JSON of one sample. */
const maxSampleBytes = 2048;

export function subjectOf(question: MinionQuestion, { effect, rule }: Decision): DecisionSubject {
  const { action } = question;
  const texts =
    action === 'publish' ? question.resource.calls.map(({ fun }) => fun) : [questionText(question)];
  const minions = action === 'publish' ? question.resource.minions : undefined;
  const owner = action === 'mine' ? question.resource.owner : undefined;
  return {
    minion: question.subject.id,
    action,
    texts,
    ...(owner === undefined ? {} : { owner }),
    ...(minions === undefined ? {} : { minions }),
    effect,
    rule,
  };
}

/** No part can be taken for another one: ids and names of rules have no line feed in them. */
export function keyOf(subject: DecisionSubject): string {
  const { minion, action, texts, owner = '', minions = [], effect, rule } = subject;
  const [text = ''] = texts;
  if (action === 'signal') return signalKey(effect, minion, rule, text);
  return JSON.stringify([action, effect, minion, rule, texts, owner, minions]);
}

/** The same before anything is put together for it: most of what minions ask for are signals. */
export function keyOfQuestion(question: MinionQuestion, decision: Decision): string {
  if (question.action !== 'signal') return keyOf(subjectOf(question, decision));
  const { subject, resource } = question;
  return signalKey(decision.effect, subject.id, decision.rule, resource.tag);
}

function signalKey(effect: string, minion: string, rule: string, tag: string): string {
  return `${effect}\n${minion}\n${rule}\n${tag}`;
}

/** What of a question is kept by its shape; `undefined`: it has no such part. */
export function sampleOf(question: MinionQuestion): Sample | undefined {
  switch (question.action) {
    case 'signal': {
      const data = question.resource.data as WireValue | undefined; // a minion's, from the wire
      // Where nothing is said, no schema fits: that it was so sometimes must be known.
      return { shape: shapeOf(data), value: () => data ?? null };
    }
    case 'publish': {
      const { calls } = question.resource;
      return { shape: calls.map(shapeOfCall).join(), value: () => calls.map(toPlainCall) };
    }
    case 'runner':
    case 'wheel':
    case 'command': {
      const { call } = question.resource;
      return { shape: shapeOfCall(call), value: () => [toPlainCall(call)] };
    }
    default:
      return undefined;
  }
}

/** A sample within bounds; `undefined` where it is too large to be kept. */
export function keptSample(sample: Sample, keepsValues: boolean): WireValue | undefined {
  const value = sample.value();
  // What has a shape is JSON.
  const kept = keepsValues ? value : (withoutValues(value) as WireValue);
  return JSON.stringify(kept).length <= maxSampleBytes ? kept : undefined;
}

function shapeOfCall({ args, kwargs }: Call): string {
  return `${args.length}(${[...kwargs.keys()].sort().join()})`;
}

function toPlainCall({ fun, args, kwargs }: Call): WireValue {
  return { fun, args: [...args], kwargs: Object.fromEntries(kwargs) };
}
