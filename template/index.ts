export { defaultTemplateLimits, type TemplateLimits } from '../python/limits.ts';
export {
  Bytes,
  Dict,
  Float,
  isText,
  type PlainData,
  printedText,
  Tuple,
  textOf,
  toPlain,
  toPython,
  type Value,
} from '../python/values.ts';
export {
  type SourcePosition,
  TemplateError,
  type TemplateErrorCode,
  type TemplateErrorDetails,
  type TemplateErrorEntry,
  templateErrors,
} from './errors.ts';
export type { WhitespaceOptions } from './jinja/lexer.ts';
export type { TemplateLoader, ValuePrinter } from './jinja/rendering.ts';
export { type ParseOptions, parseTemplate, type Template } from './jinja/template.ts';
export { type RenderOptions, renderJinja, type SaltFunction } from './render.ts';
export { parseYaml, type YamlOptions } from './yaml.ts';
