/** One run of a reaction, and how it lies in the store. */
import Type from '#typebox';
import { Compile } from '#typebox/compile';
import {
  packLocal,
  unpackLocal,
  type WireMap,
  type WireValue,
} from '../../minion-protocol/index.ts';
import { StoreError } from '../../store/index.ts';
import type { PlannedCall } from './planner.ts';

/** What became of a run. */
export type ReactionOutcome =
  /** Every minion answered, and none failed; or the runner did. */
  | 'succeeded'
  /** A minion failed or did not answer, or the runner failed. */
  | 'failed'
  /** It took longer than `timeout`; minions may still be at it. */
  | 'timeout'
  /** No rule lets the reaction do so. */
  | 'denied'
  /** The target means no minion. */
  | 'nobody'
  /** The call cannot be made: its target cannot be read, or there is no such function. */
  | 'unusable'
  /** The reaction is not in the configuration any more. */
  | 'removed'
  /** The master was stopped when the job had left, or the runner was under way. */
  | 'interrupted';

/** What became of a run, and why. */
export interface ReactionResult {
  readonly outcome: ReactionOutcome;
  /** For a person. */
  readonly reason?: string;
}

/** A run that is not over. */
export interface OpenRun {
  /**
   * Of the job, the first job of the command, the runner or the wheel function; it is known before
   * anything is done.
   */
  readonly jid: string;
  readonly reaction: string;
  /** Tag of the event that it follows from. */
  readonly tag: string;
  /** The minion that emitted the event. Absent: the master itself. */
  readonly sender?: string;
  /** How many runs led to the event that it follows from. */
  readonly depth: number;
  /** Milliseconds since 1970. */
  readonly queuedAt: number;
  readonly call: PlannedCall;
  /** Whether the job has left, or the runner was started; it is not done again then. */
  readonly isSent: boolean;
}

/** A run that is over. */
export interface EndedRun extends Omit<OpenRun, 'isSent'> {
  /** Milliseconds since 1970. */
  readonly endedAt: number;
  readonly outcome: ReactionOutcome;
  /** Why, for a person. Absent: the outcome says it. */
  readonly reason?: string;
}

const AnyValue = Type.Unsafe<WireValue>(Type.Unknown());
const call = {
  fun: Type.String(),
  arg: Type.Array(AnyValue),
  kwarg: Type.Record(Type.String(), AnyValue),
};
const Target = Type.Object({
  tgt: Type.Union([Type.String(), Type.Array(Type.String())]),
  tgtType: Type.Optional(Type.String()),
});
const base = {
  jid: Type.String(),
  reaction: Type.String(),
  tag: Type.String(),
  sender: Type.Optional(Type.String()),
  depth: Type.Number(),
  queuedAt: Type.Number(),
  call: Type.Union([
    Type.Object({
      ...call,
      kind: Type.Union([Type.Literal('run'), Type.Literal('command')]),
      target: Target,
    }),
    Type.Object({ ...call, kind: Type.Union([Type.Literal('runner'), Type.Literal('wheel')]) }),
  ]),
};
const openSchema = Compile(Type.Object({ ...base, isSent: Type.Boolean() }));
const endedSchema = Compile(
  Type.Object({
    ...base,
    endedAt: Type.Number(),
    outcome: Type.Union([
      Type.Literal('succeeded'),
      Type.Literal('failed'),
      Type.Literal('timeout'),
      Type.Literal('denied'),
      Type.Literal('nobody'),
      Type.Literal('unusable'),
      Type.Literal('removed'),
      Type.Literal('interrupted'),
    ]),
    reason: Type.Optional(Type.String()),
  }),
);

export function packRun(run: OpenRun | EndedRun): Buffer {
  return packLocal({ ...run, call: packCall(run.call) });
}

/** @throws StoreError ERR_STORE_CORRUPT */
export function unpackOpenRun(bytes: Uint8Array): OpenRun {
  const value = unpackLocal(bytes);
  if (openSchema.Check(value)) return value;
  throw unknownForm();
}

/** @throws StoreError ERR_STORE_CORRUPT */
export function unpackEndedRun(bytes: Uint8Array): EndedRun {
  const value = unpackLocal(bytes);
  if (endedSchema.Check(value)) return value;
  throw unknownForm();
}

function packCall(planned: PlannedCall): WireMap {
  const { kind, fun, arg, kwarg } = planned;
  const common = { kind, fun, arg: [...arg], kwarg: { ...kwarg } };
  if (!('target' in planned)) return common;
  const { tgt, tgtType = 'glob' } = planned.target;
  return { ...common, target: { tgt: typeof tgt === 'string' ? tgt : [...tgt], tgtType } };
}

function unknownForm(): StoreError {
  return new StoreError('ERR_STORE_CORRUPT', 'a stored run of a reaction has an unknown form');
}
