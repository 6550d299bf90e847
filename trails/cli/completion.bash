%(complete_func)s() {
    local IFS=$'\n' line="${COMP_LINE:0:COMP_POINT}" word before="" each open="" i sign
    for ((i = 0; i < ${#line}; i++)); do
        sign="${line:i:1}"
        case "$open$sign" in
            \\ | \"\\) i=$((i + 1)) ;;
            [\"\']) open="$sign" ;;
            \"\" | \'\') open="" ;;
        esac
    done
    word="${line##*[[:space:]]}"
    if [[ -z "$open" && "$COMP_WORDBREAKS" == *:* && "$word" == *:* ]]; then before="${word%%"${word##*:}"}"; fi
    COMPREPLY=()
    for each in $(COMP_LINE="$line" %(complete_var)s=bash_complete "$1" 2>/dev/null); do
        case "$each" in
            plain,*\'*) [[ "$open" == \' ]] || { %(complete_func)s_quoted "${each#plain,}"; COMPREPLY+=("${each#"$before"}"); } ;;
            plain,*) %(complete_func)s_quoted "${each#plain,}"; COMPREPLY+=("${each#"$before"}") ;;
            dir,*) COMPREPLY=(); compopt -o dirnames 2>/dev/null ;;
            file,*) COMPREPLY=(); compopt -o default 2>/dev/null ;;
        esac
    done
    return 0
}

%(complete_func)s_quoted() {
    case "$open" in
        \") each="${1//\\/\\\\}"; each="${each//\"/\\\"}"; each="${each//\$/\\$}"; each="${each//\`/\\\`}" ;;
        \') each="$1" ;;
        *) printf -v each %%q "$1" ;;
    esac
}

complete -o nosort -F %(complete_func)s %(prog_name)s 2>/dev/null || complete -F %(complete_func)s %(prog_name)s
