/** Determines the calls of the reactor files that the option `reactor` names. */

import { MasterError, type ReactionEvent } from '#master';
import { formatEventStamp } from '#minion-protocol';
import { TemplateError } from '#template';
import type { Renderer } from '../render/renderer.ts';
import type { SourceFile } from '../render/source-file.ts';
import type { Plan, PlannedCall, Planner, Refusal } from './reaction-planner.ts';
import { CallRefused, callOf, type Takes } from './reactor-call.ts';
import { chunksOf, FormError } from './reactor-chunks.ts';
import type { ReactorFiles } from './reactor-files.ts';
import { type ReactorRules, renderReaction } from './render-reaction.ts';

export interface ReactorDeps {
  readonly files: ReactorFiles;
  readonly rules: ReactorRules;
  readonly rendering: Renderer;
  readonly takes: Takes;
  /** Clock: returns the current time in milliseconds since 1970. */
  readonly now: () => number;
}

/**
 * Creates a planner for reactor files.
 * @param reference - path of a file, or a glob of files
 */
export function createReactorPlanner(reference: string, parts: ReactorDeps): Planner {
  return async (event) => {
    // As in Salt, a call of a reaction triggers no further reaction.
    if (event.isOfReaction === true) return { calls: [], refused: [] };
    const stamped = { _stamp: formatEventStamp(new Date(parts.now())), ...event.body };
    const plans = await planAll(reference, { ...event, body: stamped }, parts);
    return {
      calls: plans.flatMap(({ calls }) => calls),
      refused: plans.flatMap(({ refused }) => refused),
    };
  };
}

async function planAll(
  reference: string,
  event: ReactionEvent,
  parts: ReactorDeps,
): Promise<readonly Plan[]> {
  try {
    const files = await parts.files.find(reference);
    if (files.length === 0) return [refused({ reason: 'no-file', why: 'the file does not exist' })];
    return await Promise.all(files.map((file) => planFile(file, event, parts)));
  } catch (error) {
    if (error instanceof MasterError) return [refused({ reason: 'render', why: error.message })];
    throw error;
  }
}

async function planFile(file: SourceFile, event: ReactionEvent, parts: ReactorDeps): Promise<Plan> {
  const { path } = file;
  const by = { rendering: parts.rendering, imported: parts.files.imported };
  const failures: Refusal[] = [];
  const calls: PlannedCall[] = [];
  try {
    const { data, text } = await renderReaction(file, event, parts.rules, by);
    for (const chunk of chunksOf(data)) {
      try {
        calls.push(callOf(chunk, text, parts.takes));
      } catch (error) {
        if (!(error instanceof CallRefused)) throw error;
        failures.push({ reason: error.reason, why: `${path}: ${error.message}` });
      }
    }
  } catch (error) {
    return refused(whyNot(error, path));
  }
  return { calls, refused: failures };
}

/**
 * Converts an error to the reason why no call is made.
 * @throws the error itself if the file did not cause it
 */
function whyNot(error: unknown, path: string): Refusal {
  if (error instanceof FormError) return { reason: 'form', why: `${path}: ${error.message}` };
  if (error instanceof TemplateError) return { reason: 'render', why: described(error) };
  if (error instanceof MasterError) return { reason: 'render', why: `${path}: ${error.message}` };
  throw error;
}

/** Codes of errors whose messages may contain data of the event. */
const codesWithEventData: ReadonlySet<string> = new Set([
  'ERR_TEMPLATE_RUNTIME',
  'ERR_TEMPLATE_FUNCTION',
  'ERR_YAML',
]);

function described({ code, message, kind, place }: TemplateError): string {
  return codesWithEventData.has(code) ? `${kind}; file ${place.file}, line ${place.line}` : message;
}

function refused(refusal: Refusal): Plan {
  return { calls: [], refused: [refusal] };
}
