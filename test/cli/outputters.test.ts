/** Salt's other outputters against what Salt itself prints; see fixtures/cli/record.py. */
import test from 'ava';
import { formatRaw, formatTxt, formatValuesOnly } from '../../cli/output/outputters.ts';
import { formatPprint } from '../../cli/output/python.ts';
import { formatYaml } from '../../cli/output/yaml.ts';
import { fromJson } from '../../master/index.ts';
import type { WireValue } from '../../minion-protocol/index.ts';
import { readCases } from './fixture.ts';

const cases = readCases<Readonly<Record<string, string>>>('outputters.json');

const formats: Readonly<Record<string, (value: WireValue) => string>> = {
  yaml: (value) => formatYaml(value),
  'yaml 4': (value) => formatYaml(value, { indent: 4 }),
  'yaml -1': (value) => formatYaml(value, { indent: -1 }),
  pprint: (value) => formatPprint(value),
  'pprint 4': (value) => formatPprint(value, 4),
  raw: formatRaw,
  txt: formatTxt,
  newline_values_only: formatValuesOnly,
};

for (const [name, format] of Object.entries(formats)) {
  test(`${name} prints what Salt prints`, (t) => {
    for (const { value, ...recorded } of cases) {
      const expected = recorded[name];
      if (expected === undefined) continue;
      const actual = format(new Map([['minion', fromJson(value)]])).trimEnd();
      t.is(actual, expected, JSON.stringify(value));
    }
  });
}
