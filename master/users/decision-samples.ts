/** Samples of decisions, as the recorder stores them. */

import { type Call, type Decision, type MinionSubject, type Question, questionText } from '#acl';
import type { WireValue } from '#minion-protocol';
import type { RecordedDecision } from '../api/index.ts';
import { shapeOf, withoutValues } from './shapes.ts';

/** What a minion asks for that rules are about. */
export type MinionQuestion = Exclude<Question, { action: 'return' }> & {
  readonly subject: MinionSubject;
};

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
