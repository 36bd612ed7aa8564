export {
  Interruption,
  TemplateError,
  type TemplateErrorCode,
  templateErrors,
} from './errors.ts';
export { filterRefusals, filters } from './filters/index.ts';
export type { RenderOptions } from './jinja/rendering.ts';
export { parseTemplate, type Template } from './jinja/template.ts';
export { type PlainData, toPlain, toPython } from './python/convert.ts';
export { LateDict, LateValue, readLate } from './python/late.ts';
export type { TemplateLimits } from './python/limits.ts';
export { printedText } from './python/repr.ts';
export { splitLines } from './python/text.ts';
export { Dict, Float, isText, textOf, type Value } from './python/values.ts';
export { resolveTag } from './python/yaml-scalar.ts';
export { renderJinja } from './render.ts';
export {
  ChangedArguments,
  plainResult,
  type SaltFunction,
  SaltFunctions,
} from './salt-functions.ts';
export { parseYaml, type TextMarks } from './yaml.ts';
