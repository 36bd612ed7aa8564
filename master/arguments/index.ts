export { ArgumentReader, isReaderBusy } from './argument-reader.ts';
export {
  type FunctionArguments,
  isFunctionName,
  isKeywordText,
  keywordNameOf,
  maxPlainDepth,
  parseArgument,
  parseArguments,
  toPlainValue,
} from './arguments.ts';
export {
  fromJson,
  markedForm,
  markedJson,
  readMarkedJson,
  toJson,
  writeMarkedJson,
} from './json-values.ts';
export { isPlainYamlText, parseYaml } from './yaml.ts';
