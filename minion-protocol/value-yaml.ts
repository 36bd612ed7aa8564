/** Writes wire values as YAML in the layout of Salt. */

import { UsageMeter } from '#template/python/limits.ts';
import { str } from '#template/python/repr.ts';
import { Bytes } from '#template/python/values.ts';
import { dumpYaml } from '#template/python/yaml.ts';
import { type PythonForms, toPythonValue } from './python-values.ts';
import type { WireValue } from './wire-value.ts';

/** Options for the layout of YAML. */
export interface YamlOptions {
  /** Number of spaces per level, 2 to 9. A negative number selects flow style. Default: 2. */
  readonly indent?: number | undefined;
}

/**
 * Conversions for values that are objects in Python. Dates are written without quotes, because YAML
 * has a type for them.
 */
const yamlForms: PythonForms = {
  dateTime: ({ text }) => ({ typeName: 'datetime', repr: () => text }),
  extension: ({ code, data }) => [code, new Bytes(data)],
};

/**
 * Formats a value as YAML with sorted keys, without a newline at the end [salt output/yaml_out.py].
 */
export function formatYaml(value: WireValue, { indent = 2 }: YamlOptions = {}): string {
  return dumpYaml(toPythonValue(value, yamlForms), {
    flowStyle: indent < 0,
    indent: indent >= 2 && indent <= 9 ? indent : 2,
    objectText: str,
    meter: UsageMeter.unlimited(),
  });
}
