/** Functions that all templates can call: those of jinja2, and Salt's `raise` and `odict`. */

import { makeDict } from '../python/dict-methods.ts';
import {
  PythonException,
  typeError,
  UnsupportedFeature,
  valueError,
} from '../python/exceptions.ts';
import { BuiltinFunction, bindArguments } from '../python/functions.ts';
import type { UsageMeter } from '../python/limits.ts';
import { str } from '../python/repr.ts';
import { asIndex } from '../python/subscripts.ts';
import { type Arguments, Range, type Value } from '../python/values.ts';
import { Cycler, Joiner, Namespace } from './objects.ts';

/** Maximum length of a range in jinja2's sandbox. */
const maxRange = 100_000;

function range({ positional, named }: Arguments): Range {
  if (named.size > 0) throw typeError('range() takes no keyword arguments');
  const [first, second, third, ...more] = positional;
  if (first === undefined || more.length > 0) {
    throw typeError(`range expected at least 1 argument, got ${positional.length}`);
  }
  const start = second === undefined ? 0 : asIndex(first);
  const stop = second === undefined ? asIndex(first) : asIndex(second);
  const step = third === undefined ? 1 : asIndex(third);
  if (step === 0) throw valueError('range() arg 3 must not be zero');
  const made = new Range(start, stop, step);
  if (made.length <= maxRange) return made;
  throw new PythonException(
    'OverflowError',
    `Range too big. The sandbox blocks ranges larger than MAX_RANGE (${maxRange}).`,
  );
}

/** Returns the functions for one rendering, by name. */
export function makeGlobals(meter: UsageMeter): ReadonlyMap<string, Value> {
  const functions: Readonly<Record<string, (args: Arguments) => Value>> = {
    range,
    dict: (args) => makeDict(args, meter),
    odict: (args) => makeDict(args, meter),
    namespace: (args) => new Namespace(args, meter),
    cycler: (args) => new Cycler(args),
    joiner: (args) => {
      const [separator = ', '] = bindArguments(
        'joiner',
        { names: ['sep'], defaults: [', '] },
        args,
      );
      return new Joiner(separator);
    },
    lipsum: () => {
      throw new UnsupportedFeature(
        "the function 'lipsum' is not supported: it generates random text",
      );
    },
    show_full_context: () => {
      throw new UnsupportedFeature(
        "the function 'show_full_context' is not supported: it prints all variables",
      );
    },
    raise: ({ positional }) => {
      const [message = ''] = positional;
      throw new PythonException('TemplateError', str(message));
    },
  };
  return new Map(
    Object.entries(functions).map(([name, run]) => [name, new BuiltinFunction(name, run)] as const),
  );
}
