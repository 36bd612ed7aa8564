/** Filters and tests by name. */

import type { Definition, FilterContext } from '../filters/definition.ts';
import { filters, tests } from '../filters/index.ts';
import { bind } from '../python/functions.ts';
import { Raised } from '../python/raise.ts';
import { textRepr } from '../python/repr.ts';
import type { Arguments, Value } from '../python/values.ts';
import type { Rendering } from './rendering.ts';

/** @throws Raised TemplateRuntimeError for a filter that there is not; Unsupported for one left out */
export function callFilter(rendering: Rendering, name: string, args: Arguments): Value {
  return apply(filters.get(name), 'filter', name, args, rendering);
}

/** @throws Raised TemplateRuntimeError for a test that there is not */
export function callTest(rendering: Rendering, name: string, args: Arguments): Value {
  return apply(tests.get(name), 'test', name, args, rendering);
}

function apply(
  definition: Definition | undefined,
  what: string,
  name: string,
  args: Arguments,
  rendering: Rendering,
): Value {
  if (definition === undefined) {
    throw new Raised('TemplateRuntimeError', `No ${what} named ${textRepr(name)} found.`);
  }
  rendering.meter.step();
  const context = contextOf(rendering);
  if (definition.run !== undefined) {
    return definition.run(context, ...bind(name, definition, args));
  }
  return definition.runAll(context, args);
}

function contextOf(rendering: Rendering): FilterContext {
  return {
    meter: rendering.meter,
    isStrict: rendering.isStrict,
    lookup: rendering,
    now: rendering.now,
    random: rendering.random,
    filter: (name, args) => callFilter(rendering, name, args),
    test: (name, args) => callTest(rendering, name, args),
  };
}
